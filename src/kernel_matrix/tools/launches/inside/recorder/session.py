"""One recording: install the stand-ins, and when the program has ended write its launches down and compile them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kernel_matrix.job.ahead import nvcc

from .cache import Cache
from .compiling import Task, compile_all
from .nvcc import recorded as cuda_sources
from .settings import Settings, Target, read
from .stand_ins import questions, torch_extensions, vendor_commands
from .tilelang import recorder as tilelang_recorder
from .unit import Unit
from .user_program import Status

_PROGRESS_SECONDS = 10.0
_LONGEST = 500  # characters of a warning
_COMPILERS = {"cuda": "nvcc", "hip": "hipcc"}


@dataclass
class Recording:
    """A program that is recorded. ``recorders`` have what was launched; ``leave`` takes the stand-ins away.

    ``retarget`` makes the stand-in for Triton's driver another device, and ``emulator`` has the launches that it runs.
    ``warned`` are Triton's warnings.
    """

    settings: Settings
    recorders: list[Any]
    leave: list[Callable[[], None]]
    retarget: Callable[[Target], None]
    began: float
    warned: list[str]
    emulator: Any = None

    def end(self, status: Status) -> None:
        """Write everything down, and compile the launches that are chosen."""
        for leave in self.leave:
            leave()
        settings, output = self.settings, self.settings.output
        headers = torch_extensions.generated_headers(output)
        sources = cuda_sources.recorded(output / torch_extensions.LOG, settings.commands, headers)
        launches: list[Unit] = [launch for one in self.recorders for launch in one.launches.values()]
        if self.emulator is None:
            taken = chosen(launches, settings.configurations, settings.specialisations)
        else:
            taken = [launch for launch in launches if launch.identity in self.emulator.identities]
        total = sum(one.total for one in self.recorders) + sum(source.times for source in sources)
        compilers = _compilers(settings.told.backend) if sources else {}
        self._write(status, [*launches, *sources], [*taken, *sources], total, compilers)
        with (output / "compiled.jsonl").open("w", encoding="utf-8") as file:
            for entry in self._compiled([*taken, *sources]):
                file.write(json.dumps(entry) + "\n")
                file.flush()
        (output / "warnings.json").write_text(json.dumps(list(dict.fromkeys(self.warned))), encoding="utf-8")

    def _write(
        self, status: Status, units: list[Unit], taken: list[Unit], total: int, compilers: dict[str, list[str]]
    ) -> None:
        vendor_commands.note_what_was_asked(self.settings.output)
        identities = {unit.identity for unit in taken}
        content = {
            "status": status.code,
            "error": status.error,
            "seconds": round(time.monotonic() - self.began, 2),
            "total": total,
            "unanswered": questions.UNANSWERED,
            "assumed": questions.ASSUMED,
            "python": platform.python_version(),
            "versions": _versions(),
            "compilers": compilers,
            "launches": [unit.entry(taken=unit.identity in identities) for unit in units],
        }
        path = self.settings.output / "recording.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(content), encoding="utf-8")
        part.replace(path)

    def _compiled(self, taken: list[Unit]) -> Iterator[dict[str, Any]]:
        """Yield the result of each launch for each target, those that are kept first."""
        cache, tasks, keys = Cache(self.settings.cache), [], {}
        if self.emulator is not None:
            yield from (_result(unit, target, result) for unit, target, result in self.emulator.results())
        for target in self.settings.targets:
            if target in self.settings.run and self.emulator is not None:
                continue
            self.retarget(target)
            for unit in taken:
                stage = "launch"
                try:
                    task = Task(unit, target, unit.source(target))
                    stage = "lower"
                    keys[id(task)] = key = cache.key(task.source)
                except BaseException as error:  # a kernel's own code runs in this too
                    text = f"{type(error).__name__}: {error}"
                    failed = {"stage": stage, "message": text[:500], "detail": text, "seconds": 0}
                    yield _result(unit, target, failed)
                    continue
                if (kept := cache.get(key)) is not None:
                    yield _result(unit, target, {**kept, "kept": True})
                else:
                    tasks.append(task)
        shown = time.monotonic()
        for ended, (task, result) in enumerate(compile_all(tasks, self.settings, self.retarget), 1):
            cache.put(keys[id(task)], result)
            yield _result(task.unit, task.target, result)
            if time.monotonic() - shown > _PROGRESS_SECONDS or ended == len(tasks):
                shown = time.monotonic()
                print(f"kernel-matrix: {ended} of {len(tasks)} compiled", file=sys.stderr, flush=True)  # noqa: T201


def begin(path: Path) -> Recording:
    """Install the stand-ins that the settings ask for, of what this environment has."""
    settings = read(path)
    output, told = settings.output, settings.told
    output.mkdir(parents=True, exist_ok=True)
    _give_a_home(output / "home")
    os.environ.update(TORCHDYNAMO_DISABLE="1", TORCH_COMPILE_DISABLE="1", CUDA_VISIBLE_DEVICES="0")
    os.environ.setdefault("TRITON_CACHE_DIR", str(output / "triton"))
    began, warned = time.monotonic(), _warnings_of_triton()
    vendor_commands.install(told, output)
    leave = [torch_extensions.install(output)]
    recorders: list[Any] = [tilelang_recorder.install(told)]
    retarget: Callable[[Target], None] = _nothing
    emulator: Any = None
    if _is_here("torch"):
        from .stand_ins import torch_cuda, torch_tensors

        torch_cuda.install(told)
        if _is_here("triton"):
            recorder, retarget, emulator = _of_triton(settings)
            recorders.append(recorder)
        mode = torch_tensors.install(computed=settings.interpret or emulator is not None)
        leave.append(lambda: mode.__exit__(None, None, None))
    return Recording(settings, recorders, leave, retarget, began, warned, emulator)


def _of_triton(settings: Settings) -> tuple[Any, Callable[[Target], None], Any]:
    """Install the stand-ins for Triton. Return its recorder, what retargets its driver, and the emulator if any."""
    from .stand_ins import triton_driver
    from .triton import recorder

    driver = triton_driver.install(settings.told)

    def retarget(target: Target) -> None:  # a kernel may ask what it is compiled for
        driver.__dict__["target"] = target

    if settings.run:
        from .triton.emulated import calls

        emulator = calls.install(settings, retarget)
        return recorder.install(emulator), retarget, emulator
    if settings.interpret:
        from .triton.emulated import interpret

        return recorder.install(interpret.install()), retarget, None
    return recorder.install(None), retarget, None


def _warnings_of_triton() -> list[str]:
    """Return a list of the warnings that Triton gives in this process; it fills while the program runs."""
    found: list[str] = []
    show = warnings.showwarning

    def noted(message: Warning | str, category: type[Warning], filename: str, *rest: Any, **more: Any) -> None:
        if f"{os.sep}triton{os.sep}" in filename:
            found.append(f"{category.__name__}: {' '.join(str(message).split())[:_LONGEST]}")
        show(message, category, filename, *rest, **more)

    warnings.showwarning = noted
    return found


def _nothing(*_: object) -> None:
    """Do nothing: there is no stand-in to change."""


def _is_here(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _give_a_home(folder: Path) -> None:
    """Give the program a home of its own. Some programs keep what their autotuner measured, and here nothing measures.

    What was fetched into the real home, such as the weights of models, stays where it is found.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("HF_HOME", str(caches / "huggingface"))
    os.environ.setdefault("TORCH_HOME", str(caches / "torch"))
    folder.mkdir(exist_ok=True)
    os.environ.update(HOME=str(folder), XDG_CACHE_HOME=str(folder / ".cache"), XDG_CONFIG_HOME=str(folder / ".config"))


def _result(unit: Unit, target: Target, result: dict[str, Any]) -> dict[str, Any]:
    return {"identity": unit.identity, "target": target.name, **result}


def _compilers(backend: str) -> dict[str, list[str]]:
    """Return the name and version of what compiles nvcc's sources for a vendor; none if it is not on this machine."""
    try:
        return {"nvcc": [_COMPILERS[backend], nvcc.version_of(nvcc.compiler_of(backend))]}
    except nvcc.UnavailableError:
        return {}


def _versions() -> dict[str, str]:
    """Return the versions of all distributions of this environment."""
    named = [(item.metadata["Name"], item.version) for item in importlib.metadata.distributions()]
    return {name: version for name, version in reversed(named) if name}  # what is found first is what is imported


Item = TypeVar("Item")


def spread(items: Sequence[Item], most: int | None) -> list[Item]:
    """Return at most so many items, the first among them, and the others evenly over the rest."""
    if most is None or len(items) <= most:
        return list(items)
    if most == 1:
        return [items[0]]
    return [items[round(number * (len(items) - 1) / (most - 1))] for number in range(most)]


def chosen(launches: Iterable[Unit], configurations: int | None, specialisations: int | None) -> list[Unit]:
    """Return the launches that are compiled.

    A kernel is called in several ways (its specialisations): an autotuned call is one, whatever configurations it
    tries. Of each kernel at most ``specialisations`` calls are taken, and of each of these ``configurations``.
    """
    kernels: dict[object, dict[object, list[Unit]]] = defaultdict(lambda: defaultdict(list))
    for launch in launches:
        call = launch.tuned[0] if launch.tuned else launch.identity
        kernels[launch.group][call].append(launch)
    return [
        launch
        for calls in kernels.values()
        for call in spread(list(calls.values()), specialisations)
        for launch in spread(call, configurations)
    ]
