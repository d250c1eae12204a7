"""Run launches on an emulator of GPUs while the program runs, and compute what they are compared with.

Each launch that is chosen is copied three and more times by ``fork``: a process for each target compiles it and runs
the machine code (for NVIDIA the PTX) on its copy of the tensors, and two others compute the golden. The program itself
goes on with the numbers of the interpreter. All of them write what has changed in memory into files, which the harness
compares. The emulator is ours, or a simulator of another project.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import compiling
from ..settings import Settings, Target
from ..triton.launch import Launch
from ..unit import Unit
from . import interpret, reference
from .memory import Region, regions_of, tensors_in


def load_emulator(folder: Path, target: Target, *, runs: bool = True) -> None:
    """Import the emulators from their folder, with all that they need: the processes for the launches are forked.

    The environment of the program need not have them. Where a simulator runs the kernels, the launchers are enough.
    """
    sys.path.insert(0, str(folder.parent))
    import gpu_emulators  # noqa: F401  later imports look in its own folder

    del sys.path[0]
    if not runs:
        return
    if target.backend == "cuda":
        from gpu_emulators.nvidia import launch

        launch.library()
        return
    from gpu_emulators.amd import decoding, library, triton_driver  # noqa: F401  for the forked processes

    library.library()
    decoding.decode(b"\0\0\x80\xbf", target.name)  # s_nop, which each of them has


@dataclass
class Call:
    """One call of a kernel, with its arguments and its grid."""

    kernel: Any
    launch: Launch
    bound: Mapping[str, Any]
    grid: Sequence[int]

    def regions(self) -> list[Region]:
        """Return the storages of the tensors."""
        return regions_of(tensors_in(dict(self.bound)))


@dataclass
class OnEmulator:
    """Compile a call for a target and run it there: on our emulator, or in a simulator."""

    call: Call
    target: Target
    file: Path
    cache: Path
    simulator: Mapping[str, Any] | None = None
    key: str = ""

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Return the figures of the code, and what the emulator found."""
        report("bind")
        source = self.call.launch.source(self.target)
        os.environ["TRITON_CACHE_DIR"] = str(self.cache)
        report("")
        done = source.compile(report)
        import triton

        kernel = triton.compile(source.ast, target=source.target, options=source.options.__dict__)
        report("run")
        regions = self.call.regions()
        before = [region.bytes.copy() for region in regions]
        findings = _run(self.call, *_loaded(self.target, source, kernel, self.simulator))
        _save_bits(self.file, regions, before)
        return {**done, "findings": findings, "kept": str(self.cache / f"{kernel.hash}.json")}


def _run(call: Call, program: Any, launcher: Any) -> list[str]:
    """Run the machine code on the tensors, and return the findings."""
    import torch

    from gpu_emulators.common.errors import FoundError

    x, y, z = [*map(int, call.grid), 1, 1][:3]
    with torch._C.DisableTorchFunction():
        try:
            launcher(x, y, z, None, program, None, None, None, None, *map(_bare, call.bound.values()))
        except FoundError as error:
            return [str(finding) for finding in error.findings]
    return []


def _loaded(target: Target, source: Any, kernel: Any, simulator: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Return the program that the emulator or the simulator runs, and its launcher."""
    of_ptx = target.backend == "cuda"
    driver = importlib.import_module(f"gpu_emulators.{'nvidia' if of_ptx else 'amd'}.triton_driver")
    name, code = kernel.metadata.name, kernel.asm["ptx" if of_ptx else "hsaco"]
    if simulator is not None:
        from . import simulated

        image = code.encode() + b"\0" if of_ptx else code
        program: Any = simulated.Program(simulator, target.name, target.backend, image, name)
    elif of_ptx:
        program = importlib.import_module("gpu_emulators.nvidia").Program(code, name)
    else:
        program = importlib.import_module("gpu_emulators.amd").Program(code, target.name, name)
    return program, driver.Launcher(source.ast, kernel.metadata)


def _bare(value: Any) -> Any:
    """Return the tensor that another dtype's view of it wraps."""
    return value.base if hasattr(value, "base") and hasattr(value, "data_ptr") else value


@dataclass
class Golden:
    """Compute a call in float64, with its inputs as they are or off by one rounding error."""

    call: Call
    file: Path
    nudged: bool
    key: str = ""

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compute, and write the numbers that were changed."""
        report("reference")
        before = _values(self.call.regions())
        regions = reference.compute(self.call.kernel, self.call.bound, self.call.grid, rounds=False, nudged=self.nudged)
        _save_values(self.file, regions, before)
        return {"figures": {}}


def _values(regions: Sequence[Region]) -> list[Any]:
    return [region.bytes.copy() if region.values is None else region.values.copy() for region in regions]


def _save_values(file: Path, regions: Sequence[Region], before: Sequence[Any]) -> None:
    """Write the elements that were written: their places, what was there, and what is there now."""
    arrays: dict[str, Any] = {}
    for region, old in zip(regions, before, strict=True):
        if region.values is not None:
            where = np.flatnonzero(region.written)
            arrays |= _three(region, where, old[where], region.values[where])
        else:
            arrays |= _changed(region, old)
    _save(file, arrays)


def _save_bits(file: Path, regions: Sequence[Region], before: Sequence[Any]) -> None:
    """Write the elements whose bits have changed."""
    arrays: dict[str, Any] = {}
    for region, old in zip(regions, before, strict=True):
        arrays |= _changed(region, old)
    _save(file, arrays)


def _changed(region: Region, before: Any) -> dict[str, Any]:
    width = region.size // region.written.size
    kind = np.dtype(f"u{width}") if width in (1, 2, 4, 8) else np.dtype(f"V{width}")
    old, new = before.view(kind), region.bytes.view(kind)
    where = np.flatnonzero(old != new)
    return _three(region, where, old[where], new[where])


def _three(region: Region, where: Any, before: Any, after: Any) -> dict[str, Any]:
    name = f"{region.name} {region.dtype.removeprefix('torch.')}"
    return {f"{name} where": where, f"{name} before": before, f"{name} after": after}


def _save(file: Path, arrays: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part.npz")
    np.savez(part, **dict(arrays))
    part.replace(file)


@dataclass
class Emulator:
    """The computation of a program's launches. Some of them run on the emulator."""

    settings: Settings
    retarget: Callable[[Target], None]
    chosen: dict[object, set[str]] = field(default_factory=lambda: defaultdict(set))
    running: list[compiling.Running] = field(default_factory=list)
    ended: list[tuple[compiling.Task, compiling.Result]] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)  # why a launch has nothing to be compared with

    def __call__(
        self, kernel: Any, launch: Launch, grid: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Compute a launch in the place of a GPU."""
        bound, *_ = kernel.device_caches[0][-1](*args, **kwargs)
        call = Call(kernel, launch, bound, grid)
        first = self._is_chosen(launch)
        tasks = list(self._tasks(call)) if first else []
        for task in tasks:
            self._start(task)
        try:
            self._go_on(call, first)
        except Exception as error:  # the interpreter does not have all of the language
            text = f"{type(error).__name__}: {error.__cause__ or error}"[:300]
            self._take_over(call, tasks, text)
        launch.emulated = True

    def results(self) -> Iterator[tuple[Unit, Target, compiling.Result]]:
        """Wait for what runs, and yield the result of each launch on each target."""
        while self.running:
            self._wait()
        for task, result in self.ended:
            if isinstance(task.source, OnEmulator):
                yield task.unit, task.target, {**result, "without": self.without.get(task.unit.identity, "")}
            elif result["stage"]:
                self.without.setdefault(task.unit.identity, result["message"])

    @property
    def identities(self) -> set[str]:
        """The launches that run on the emulator."""
        return set().union(*self.chosen.values())

    def _is_chosen(self, launch: Launch) -> bool:
        """Return whether this is the first call of a launch that is among the first ones of its kernel."""
        most, known = self.settings.specialisations, self.chosen[launch.group]
        if launch.identity in known or (most is not None and len(known) >= most):
            return False
        known.add(launch.identity)
        return True

    def _folder(self, call: Call) -> Path:
        return self.settings.output / "emulated" / call.launch.identity

    def _tasks(self, call: Call) -> Iterator[compiling.Task]:
        folder, told = self._folder(call), self.settings.told
        for nudged in (False, True):
            source = Golden(call, folder / f"{'nudged' if nudged else 'golden'}.npz", nudged)
            yield compiling.Task(call.launch, told, source)
        for target in self.settings.emulate:
            yield self._on_emulator(call, target, target.name)

    def _on_emulator(self, call: Call, target: Target, name: str) -> compiling.Task:
        file = self._folder(call) / f"{name}.npz"
        cache, simulator = self.settings.cache / "triton", self.settings.simulator
        return compiling.Task(call.launch, target, OnEmulator(call, target, file, cache, simulator))

    def _go_on(self, call: Call, first: bool) -> None:
        """Compute with rounding, write the numbers into the tensors, and into a file if this is a first call."""
        regions = call.regions()
        before = [region.bytes.copy() for region in regions] if first else []
        for region in (regions := reference.compute(call.kernel, call.bound, call.grid, rounds=True)):
            region.write_back()
        if first:
            _save_bits(self._folder(call) / "eager.npz", regions, before)

    def _take_over(self, call: Call, tasks: Sequence[compiling.Task], reason: str) -> None:
        """Go on with the numbers of the first target's machine code where the interpreter computes nothing.

        Raises:
            RuntimeError: there are none either.
        """
        self.without[call.launch.identity] = reason
        if not tasks:  # it ran on the emulator before, with other numbers
            tasks = [self._on_emulator(call, self.settings.emulate[0], "again")]
            self._start(tasks[0])
        task, source = next((one, one.source) for one in tasks if isinstance(one.source, OnEmulator))
        while any(one.task is task for one in self.running):
            self._wait()
        if not source.file.exists():
            raise RuntimeError(f"{call.kernel.__name__} is not computed: {reason}")
        arrays = np.load(source.file)
        for region in call.regions():
            name = f"{region.name} {region.dtype.removeprefix('torch.')}"
            after = arrays[f"{name} after"]
            region.bytes.view(after.dtype)[arrays[f"{name} where"]] = after

    def _start(self, task: compiling.Task) -> None:
        while len(self.running) >= self.settings.jobs:
            self._wait()
        self.running.append(compiling.start(task, self.settings, self.retarget))

    def _wait(self) -> None:
        time.sleep(0.01)
        for process in list(self.running):
            if (result := compiling.ended(process, self.settings)) is not None:
                self.running.remove(process)
                process.folder.cleanup()
                self.ended.append((process.task, result))


def install(settings: Settings, retarget: Callable[[Target], None]) -> Emulator:
    """Make the interpreter the reference's, load the emulator, and return what computes launches."""
    os.environ.setdefault("GPU_EMULATORS_CACHE", str(settings.cache / "gpu_emulators"))
    interpret.install()
    reference.install(settings.told.name)
    load_emulator(settings.emulator, settings.emulate[0], runs=settings.simulator is None)
    return Emulator(settings, retarget)
