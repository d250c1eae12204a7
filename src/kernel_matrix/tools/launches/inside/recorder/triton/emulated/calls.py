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

from ... import compiling
from ...settings import Settings, Target
from ...unit import Unit
from ..launch import Launch
from . import files, interpret, reference
from .call import Call, run


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
        findings = run(self.call, *_loaded(self.target, source, kernel, self.simulator))
        files.save_bits(self.file, regions, before)
        return {**done, "findings": findings, "kept": str(self.cache / f"{kernel.hash}.json")}


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


@dataclass
class Reference:
    """Compute a call in the interpreter.

    ``name`` says how: ``golden`` in float64, ``nudged`` with inputs that are off by one rounding error, and ``eager``
    rounded after each step.
    """

    call: Call
    folder: Path
    name: str
    key: str = ""

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compute, and write the numbers that were changed."""
        report("reference")
        if self.name == "eager":
            self.call.go_on(self.folder)
            return {"figures": {}}
        before = files.values(self.call.regions())
        call, nudged = self.call, self.name == "nudged"
        regions = reference.compute(call.kernel, call.bound, call.grid, rounds=False, nudged=nudged)
        files.save_values(self.folder / f"{self.name}.npz", regions, before)
        return {"figures": {}}


@dataclass
class Emulator:
    """The computation of a program's launches. Some of them run on the emulator."""

    settings: Settings
    retarget: Callable[[Target], None]
    chosen: dict[object, dict[object, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    running: list[compiling.Running] = field(default_factory=list)
    ended: list[tuple[compiling.Task, compiling.Result]] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)  # why a launch has nothing to be compared with

    def __call__(
        self, kernel: Any, launch: Launch, grid: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Compute a launch in the place of a GPU."""
        call = self._call(kernel, launch, grid, args, kwargs)
        first = self._is_chosen(launch)
        tasks = list(self._tasks(call)) if first else []
        for task in tasks:
            self._start(task)
        try:
            call.go_on(self._folder(call) if first else None)
        except Exception as error:  # the interpreter does not have all of the language
            text = f"{type(error).__name__}: {error.__cause__ or error}"[:300]
            self._take_over(call, tasks, text)
        launch.emulated = True

    def trial(
        self, kernel: Any, launch: Launch, grid: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Run one configuration of an autotuned launch, if it is chosen; the program goes on with other numbers."""
        most = self.settings.configurations
        place = launch.tuned[1] if launch.tuned else 0
        if most == 1 or (most is not None and place >= most) or not self._is_chosen(launch):
            return
        call = self._call(kernel, launch, grid, args, kwargs)
        for task in (compiling.Task(launch, self.settings.told, self._reference(call, "eager")), *self._tasks(call)):
            self._start(task)

    def _call(
        self, kernel: Any, launch: Launch, grid: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Call:
        bound, *_ = kernel.device_caches[0][-1](*args, **kwargs)
        return Call(kernel, launch, bound, grid)

    def results(self) -> Iterator[tuple[Unit, Target, compiling.Result]]:
        """Wait for what runs, and yield the result of each launch on each target."""
        while self.running:
            self._wait()
        for task, result in self.ended:
            source: Any = task.source
            if isinstance(source, Reference):
                if result["stage"]:
                    self.without.setdefault(task.unit.identity, result["message"])
            elif source.file.stem != "again":
                yield task.unit, task.target, {**result, "without": self.without.get(task.unit.identity, "")}

    @property
    def identities(self) -> set[str]:
        """The launches that run on the emulator or the GPU."""
        return {identity for calls in self.chosen.values() for call in calls.values() for identity in call}

    def _is_chosen(self, launch: Launch) -> bool:
        """Return whether this is the first time of a launch that is among the first calls of its kernel.

        All configurations of an autotuned call are one call.
        """
        most, calls = self.settings.specialisations, self.chosen[launch.group]
        number = launch.tuned[0] if launch.tuned else launch.identity
        if number not in calls and most is not None and len(calls) >= most:
            return False
        known = calls.setdefault(number, set())
        if launch.identity in known:
            return False
        known.add(launch.identity)
        return True

    def _folder(self, call: Call) -> Path:
        return self.settings.output / "emulated" / call.launch.identity

    def _tasks(self, call: Call) -> Iterator[compiling.Task]:
        for name in ("golden", "nudged"):
            yield compiling.Task(call.launch, self.settings.told, self._reference(call, name))
        if self.settings.card:
            yield self._on_card(call, "card")
        for target in self.settings.emulate:
            yield self._on_emulator(call, target, target.name)

    def _reference(self, call: Call, name: str) -> Reference:
        return Reference(call, self._folder(call), name)

    def _on_card(self, call: Call, name: str) -> compiling.Task:
        from ..card.launch import OnCard

        settings, file = self.settings, self._folder(call) / f"{name}.npz"
        source = OnCard(call, settings.card_target, file, settings.cache / "triton", settings.card)
        return compiling.Task(call.launch, settings.card_target, source)

    def _on_emulator(self, call: Call, target: Target, name: str) -> compiling.Task:
        file = self._folder(call) / f"{name}.npz"
        cache, simulator = self.settings.cache / "triton", self.settings.simulator
        return compiling.Task(call.launch, target, OnEmulator(call, target, file, cache, simulator))

    def _take_over(self, call: Call, tasks: Sequence[compiling.Task], reason: str) -> None:
        """Go on with the numbers of the first target's machine code where the interpreter computes nothing.

        Raises:
            RuntimeError: there are none either.
        """
        self.without[call.launch.identity] = reason
        if not tasks:  # it ran on the emulator before, with other numbers
            on_card = bool(self.settings.card)
            tasks = [
                self._on_card(call, "again") if on_card else self._on_emulator(call, self.settings.emulate[0], "again")
            ]
            self._start(tasks[0])
        task = next(one for one in tasks if not isinstance(one.source, Reference))
        source: Any = task.source
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
    runs = bool(settings.emulate) and settings.simulator is None
    load_emulator(settings.emulator, settings.emulate[0] if runs else settings.told, runs=runs)
    return Emulator(settings, retarget)
