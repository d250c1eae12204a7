"""One recording: install the stand-ins, and when the program has ended write its launches down and compile them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .program import Status
from .settings import Settings, Target, read

_PROGRESS_SECONDS = 10.0


@dataclass
class Recording:
    """A program that is recorded."""

    settings: Settings
    recorder: Any
    driver: Any
    mode: Any
    began: float

    def end(self, status: Status) -> None:
        """Write everything down, and compile the launches that are chosen."""
        from . import sample

        self.mode.__exit__(None, None, None)
        settings = self.settings
        launches = list(self.recorder.launches.values())
        taken = sample.chosen(launches, settings.configurations, settings.specialisations)
        self._write(status, taken)
        with (settings.output / "compiled.jsonl").open("w", encoding="utf-8") as file:
            for entry in self._compiled(taken):
                file.write(json.dumps(entry) + "\n")
                file.flush()

    def _write(self, status: Status, taken: list[Any]) -> None:
        from . import commands, questions

        commands.note_what_was_asked(self.settings.output)
        identities = {launch.identity for launch in taken}
        content = {
            "status": status.code,
            "error": status.error,
            "seconds": round(time.monotonic() - self.began, 2),
            "total": self.recorder.total,
            "unanswered": questions.UNANSWERED,
            "assumed": questions.ASSUMED,
            "python": platform.python_version(),
            "versions": _versions(),
            "launches": [_entry(launch, launch.identity in identities) for launch in self.recorder.launches.values()],
        }
        path = self.settings.output / "recording.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(content), encoding="utf-8")
        part.replace(path)

    def _compiled(self, taken: list[Any]) -> Iterator[dict[str, Any]]:
        """Yield the result of each launch for each target, those that are kept first."""
        from .cache import Cache
        from .compiling import Source
        from .pool import Task, compile_all

        cache, tasks, keys = Cache(self.settings.cache), [], {}
        for target in self.settings.targets:
            self._retarget(target)
            for launch in taken:
                stage = "launch"
                try:
                    task = Task(launch, target, Source(launch, target))
                    stage = "lower"
                    keys[id(task)] = key = cache.key(task.source)
                except BaseException as error:  # a kernel's own code runs in this too
                    text = f"{type(error).__name__}: {error}"
                    failed = {"stage": stage, "message": text[:500], "detail": text, "seconds": 0}
                    yield _result(launch, target, failed)
                    continue
                if (kept := cache.get(key)) is not None:
                    yield _result(launch, target, {**kept, "kept": True})
                else:
                    tasks.append(task)
        shown = time.monotonic()
        for ended, (task, result) in enumerate(compile_all(tasks, self.settings, self._retarget), 1):
            cache.put(keys[id(task)], result)
            yield _result(task.launch, task.target, result)
            if time.monotonic() - shown > _PROGRESS_SECONDS or ended == len(tasks):
                shown = time.monotonic()
                print(f"kernel-matrix: {ended} of {len(tasks)} compiled", file=sys.stderr, flush=True)  # noqa: T201

    def _retarget(self, target: Target) -> None:
        """Make the stand-in for a GPU another one: a kernel may ask what it is compiled for."""
        self.driver.__dict__["target"] = target


def begin(path: Path) -> Recording:
    """Install the stand-ins that the settings ask for."""
    settings = read(path)
    settings.output.mkdir(parents=True, exist_ok=True)
    _give_a_home(settings.output / "home")
    os.environ.update(TORCHDYNAMO_DISABLE="1", TORCH_COMPILE_DISABLE="1", CUDA_VISIBLE_DEVICES="0")
    os.environ.setdefault("TRITON_CACHE_DIR", str(settings.output / "triton"))
    began = time.monotonic()
    import torch  # noqa: F401  the stand-ins change what stands in it

    from . import commands, cuda, driver, interpret, launches, tensors

    commands.install(settings.told, settings.output)
    cuda.install(settings.told)
    stand_in = driver.install(settings.told)
    recorder = launches.install(interpret.install() if settings.interpret else None)
    mode = tensors.install(computed=settings.interpret)
    return Recording(settings, recorder, stand_in, mode, began)


def _give_a_home(folder: Path) -> None:
    """Give the program a home of its own. Some programs keep what their autotuner measured, and here nothing measures.

    What was fetched into the real home, such as the weights of models, stays where it is found.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("HF_HOME", str(caches / "huggingface"))
    os.environ.setdefault("TORCH_HOME", str(caches / "torch"))
    folder.mkdir(exist_ok=True)
    os.environ.update(HOME=str(folder), XDG_CACHE_HOME=str(folder / ".cache"), XDG_CONFIG_HOME=str(folder / ".config"))


def _entry(launch: Any, taken: bool) -> dict[str, Any]:
    from .launches import source_of

    kernel = launch.kernel
    return {
        "identity": launch.identity,
        "module": kernel.fn.__module__,
        "kernel": kernel.fn.__name__,
        "source": source_of(kernel)[:16],
        "types": launch.types,
        "special": {name: str(kind[1]) for name, kind in zip(launch.bound, launch.special, strict=False) if kind[1]},
        "constants": launch.constants,
        "options": {name: str(value) for name, value in launch.options.items()},
        "tuned": list(launch.tuned) if launch.tuned else None,
        "grid": launch.grid,
        "times": launch.times,
        "emulated": bool(launch.emulated),
        "taken": taken,
        "names": [param.name for param in kernel.params],
        "literals": launch.literals,
        "importable": launch.importable,
    }


def _result(launch: Any, target: Target, result: dict[str, Any]) -> dict[str, Any]:
    return {"identity": launch.identity, "target": target.name, **result}


def _versions() -> dict[str, str]:
    """Return the versions of all distributions of this environment."""
    named = ((item.metadata["Name"], item.version) for item in importlib.metadata.distributions())
    return {name: version for name, version in named if name}
