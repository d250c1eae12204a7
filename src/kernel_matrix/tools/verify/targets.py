"""Compile a right candidate's launches for targets that are not here, and run them on emulated ones, in the sandbox.

The tool ``launches`` does both. Its files come from a process in which the candidate runs: they can make a verdict
redder, and no wrong candidate right.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.kernel_process import KernelProcessError
from kernel_matrix.tools.launches import emulated, recording
from kernel_matrix.tools.launches.invocation import Invocation
from kernel_matrix.tools.launches.recording import Compiled, Recording, outcome_of
from kernel_matrix.tools.launches.targets import emulated_targets, known, targets_named, told
from kernel_matrix.tools.verify.sandbox.server import Server
from kernel_matrix.tools.verify.tasks.task import Case, Task
from kernel_matrix.tools.verify.verdict import NOTHING

_SIDE = "kernel_matrix.tools.verify.inside.recorded"
_EMULATED = ("gfx942", "sm_90")  # unless others are named
_SECONDS = 300.0  # of all launches for one vendor
_PATH = re.compile(r"(emulated/)?\w[\w.-]*(/\w[\w.-]*)?")
_BYTES = 256 << 20  # of what comes back, also of what is packed in it
_CACHE = "GPU_EMULATORS_CACHE"
# What compiles the emulator of a vendor's GPUs.
_MODULES = {"amd": "gpu_emulators.amd.library", "nvidia": "gpu_emulators.nvidia.launch"}
_FIGURES = ("registers", "spills", "shared", "code")


@dataclass(frozen=True)
class Wanted:
    """The targets to compile for, those that are ``named`` by the user, and those to emulate.

    A named one must be right. The emulators lie in ``emulators`` and are compiled in ``cache``; ``without`` says why
    nothing is emulated.
    """

    targets: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    emulate: tuple[str, ...] = ()
    emulators: Path = Path()
    cache: str = ""
    without: str = ""

    @property
    def readable(self) -> list[str]:
        """The folders that a candidate's process has to read for them."""
        return [self.cache, str(self.emulators)] if self.emulate else []


NONE = Wanted()


@dataclass(frozen=True)
class Found:
    """The evidence for each target, the things that were not tried, and those that are red."""

    evidence: dict[str, dict[str, Any]]
    not_tried: list[str]
    red: list[str]


def wanted(options: argparse.Namespace) -> Wanted:
    """Return the targets that the options ask for.

    Raises:
        UserError: one is not known, or a named one cannot be emulated here.
    """
    asked, emulate = options.targets, options.emulate
    if asked is None and emulate is None and (options.quick or options.jsonl is not None):
        return Wanted()
    named = [name for name in (*(asked or ()), *(emulate or ())) if name != NOTHING]
    for name in emulate or ():
        if name not in (*emulated_targets(), NOTHING):
            raise unknown("--emulate", "target of the emulator", name, emulated_targets())
    targets = [] if asked and NOTHING in asked else [one.name for one in targets_named(asked or [])]
    chosen = [one for one in emulate if one != NOTHING] if emulate else [one for one in _EMULATED if one in targets]
    folder, cache, without = Path(), "", ""
    try:
        if chosen:
            folder, cache = _prepared(chosen, options.build)
    except UserError as error:
        if emulate is not None:
            raise
        without, chosen = str(error), []
    return Wanted(tuple(dict.fromkeys((*targets, *chosen))), tuple(named), tuple(chosen), folder, cache, without)


def _prepared(names: Sequence[str], build: Path) -> tuple[Path, str]:
    """Have the emulators compiled where they are trusted; return their folder, and the folder of what was compiled.

    Raises:
        UserError: the emulators, a compiler or the decoder of instructions is not there.
    """
    folder = emulated.emulator_for(Invocation(sys.executable, (), ()), names)
    cache = str((build / "cache" / "emulators").resolve())
    modules = sorted({_MODULES[known()[name].vendor.name] for name in names})
    program = f"import importlib\nfor name in {modules}: importlib.import_module(name).library()"
    environment = {**os.environ, _CACHE: cache}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"--emulate: the emulators cannot be compiled: {done.stderr.strip().rpartition(chr(10))[2]}")
    return folder, cache


def looked_at(server: Server, task: Task, source: str, case: Case, want: Wanted) -> Found:
    """Record the candidate once for each vendor, and say what came of each target."""
    found = Found({}, [], [])
    if want.without:
        found.not_tried.append(f"emulated targets: {want.without}")
    targets = [known()[name] for name in want.targets]
    for vendor, device in told(list(reversed(want.emulate)), targets).items():
        of_vendor = [one for one in targets if one.vendor.name == vendor]
        emulate = tuple(one for one in want.emulate if known()[one].vendor.name == vendor)
        settings = recording.settings_of(
            device,
            of_vendor,
            recording.Options(jobs=1, memory_gib=4, emulate=emulate, emulator=want.emulators if emulate else Path()),
            Path(),
        )
        try:
            done = _recorded(server, task, source, case, settings, want, device, of_vendor)
        except KernelProcessError as error:
            done = str(error).splitlines()[-1][:160]
        except Exception as error:  # whatever a file makes of its reader that a candidate could have written
            done = f"its launches cannot be read ({type(error).__name__})"
        if isinstance(done, str):
            found.not_tried.append(f"{', '.join(one.name for one in of_vendor)}: {done}")
        else:
            _add(done, want, found)
    return found


def _recorded(
    server: Server,
    task: Task,
    source: str,
    case: Case,
    settings: Mapping[str, Any],
    want: Wanted,
    device: Any,
    targets: Sequence[Any],
) -> Recording | str:
    """Return the recording with what was compared, or why there is none."""
    words = {"source": source, "entry": task.entry, "modules": dict(task.modules), "call": case.call, "seed": case.seed,
             "build": case.build, "grad": bool(case.operator.differentiable)}  # fmt: skip
    arrays = case.values | {f"state {name}": one for name, one in case.state.items()}
    surroundings = {_CACHE: want.cache} if want.cache else {}
    with server.process() as process:
        process.patience(2 * _SECONDS, _SECONDS)
        words |= {"settings": settings, "seconds": _SECONDS, "surroundings": surroundings}
        (status, last), files = process.call(f"{_SIDE}:record", arrays, words)
    folder = Path(tempfile.mkdtemp(prefix="kernel-matrix-verify-"))
    try:
        _write(folder, files)
        done = recording.read(folder, device, targets, int(status))
        if done.fault and not done.compiled:
            return f"{done.fault}: {str(last).strip().splitlines()[-1:]}"
        return emulated.compared(done, folder) if done.launches else "it launches nothing there"
    finally:
        shutil.rmtree(folder)


def _write(folder: Path, files: Mapping[str, Array]) -> None:
    """Write what came back, if it is what the recorder writes.

    Raises:
        ValueError: it is not, or too much.
    """
    size = sum(one.nbytes for one in files.values())
    for name, one in files.items():
        if not _PATH.fullmatch(name):
            raise ValueError(name)
        if name.endswith(".npz"):
            size += sum(part.file_size for part in zipfile.ZipFile(io.BytesIO(one.tobytes())).infolist())
        if size > _BYTES:
            raise ValueError("too much")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.tobytes())


def _add(done: Recording, want: Wanted, found: Found) -> None:
    """Say what came of each target of a vendor: its evidence, the figures of its kernels, what is wrong there."""
    launches = {launch.identity: launch for launch in done.launches}
    for target in done.targets:
        several = [one for one in done.compiled if one.target == target.name and one.identity in launches]
        faults, kernels = list[str](), dict[str, dict[str, float]]()
        for one in several:
            outcome, _, message = outcome_of(one, launches[one.identity])
            kernels[launches[one.identity].kernel] = {n: one.figures[n] for n in _FIGURES if n in one.figures}
            if outcome != "pass":
                faults.append(f"{launches[one.identity].kernel}: {' '.join(message.split())[:300]}")
            if one.findings or (one.numbers is not None and one.numbers.faults):
                found.red.append(f"emulated {target.name}: {faults[-1]}")
            elif outcome != "pass" and target.name in want.named:
                found.red.append(f"{target.name}: {faults[-1]}")
        found.evidence[target.name] = {"evidence": _evidence(several, faults), "kernels": kernels, "faults": faults}
        found.not_tried.extend(_not_compared(target.name, several))


def _evidence(several: Sequence[Compiled], faults: Sequence[str]) -> str:
    if not several:
        return "none"
    if any(one.stage == "unavailable" for one in several):
        return "unavailable"
    if any(one.stage for one in several) or (faults and all(one.without is None for one in several)):
        return "error"
    return "emulated" if all(one.without == "" or one.findings for one in several) else "compiled"


def _not_compared(name: str, several: Sequence[Compiled]) -> Iterator[str]:
    for reason in dict.fromkeys(one.without for one in several if one.without and not one.stage):
        yield f"emulated {name}: a launch was compared with nothing ({reason[:120]})"
