"""Run the program once for each vendor behind the recorder, and read what was recorded and compiled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kernel_matrix.job import processes
from kernel_matrix.tools.launches.card import Card
from kernel_matrix.tools.launches.invocation import Invocation
from kernel_matrix.tools.launches.numbers import Beside
from kernel_matrix.tools.launches.simulators import Found
from kernel_matrix.tools.launches.targets import Target, Vendor, known, over_limits

_START = Path(__file__).with_name("inside") / "start.py"


@dataclass(frozen=True)
class Options:
    """The settings of recording and of compiling launches. None as a number means all.

    ``commands`` are ``compile_commands.json`` files: the commands of nvcc in them are taken as well. Launches run on
    the emulator, which is in the folder ``emulator``, for the targets ``emulate``, or in the ``simulator``. The program
    finds the distributions in the folders ``packages`` before the distributions of its Python. Launches run on the GPU
    ``card`` of this machine, too.
    """

    interpret: bool = False
    configurations: int | None = 1
    specialisations: int | None = 1
    jobs: int = 2
    seconds: float = 150
    memory_gib: float = 8
    cache: Path = Path("build/cache/launches")
    commands: tuple[Path, ...] = ()
    emulate: tuple[str, ...] = ()
    emulator: Path = Path()
    simulator: Found | None = None
    packages: tuple[Path, ...] = ()
    card: Card | None = None


@dataclass(frozen=True)
class Launch:
    """A recorded launch. ``taken`` is whether it is compiled, ``times`` how often it was launched.

    ``calls`` counts the calls by their arguments, which are JSON: the dtypes and shapes of tensors, and the numbers.

    ``literals`` are the constants as Python writes them, without those that it cannot write. ``names`` are all
    arguments in their order, and ``importable`` is whether the kernel is in its module under its name. ``toolchain`` is
    what compiles it: triton, tilelang or nvcc. ``program`` is a program of TileLang, packed.
    """

    identity: str
    module: str
    kernel: str
    source: str
    types: Mapping[str, str]
    special: Mapping[str, str]
    constants: Mapping[str, str]
    options: Mapping[str, str]
    tuned: Sequence[int] | None
    grid: str
    times: int
    emulated: bool
    taken: bool
    names: Sequence[str] = ()
    literals: Mapping[str, str] = field(default_factory=dict)
    importable: bool = False
    toolchain: str = "triton"
    program: str = ""
    calls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Numbers:
    """The outcome of a comparison: the figures of a record, and the outputs that are wrong, in words."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """The end of one launch for one target: an empty stage and figures, or the stage and the error.

    The stage ``unavailable`` means that the compiler is not on this machine. ``artifact`` is what was made where it is
    not the vendor's machine code, and ``kernels`` are the figures of the kernels in a source. Of a launch that was to
    run on the emulator, ``without`` says why it was compared with nothing (empty if it was), ``findings`` are what the
    emulator found, and ``numbers`` are the outcome of the comparison. ``warnings`` are the compiler's. ``card`` is what
    is said of a launch on the GPU of this machine, and ``beside`` compares an emulator with it.
    """

    identity: str
    target: str
    stage: str
    seconds: float
    cpu_seconds: float = 0.0
    message: str = ""
    detail: str = ""
    form: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    kept: bool = False
    artifact: str = ""
    kernels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    without: str | None = None
    findings: Sequence[str] = ()
    numbers: Numbers | None = None
    warnings: Sequence[str] = ()
    card: Mapping[str, Any] | None = None
    beside: Beside | None = None


@dataclass(frozen=True)
class Recording:
    """The launches of a program that was told of a device of a vendor, and the end of each.

    ``fault`` says in words how the program ended if it did not end well. ``versions`` are the versions of the
    environment's distributions. ``compilers`` are the name and version of a toolchain's compiler that may be no
    distribution. ``warnings`` are Triton's, apart from those of single launches. ``simulator`` is what the launches ran
    in, if it was not our emulator, and ``card`` the GPU of this machine on which they ran.
    """

    vendor: Vendor
    told: Target
    targets: tuple[Target, ...]
    fault: str
    seconds: float = 0.0
    total: int = 0
    launches: tuple[Launch, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    unanswered: Mapping[str, int] = field(default_factory=dict)
    assumed: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    compilers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    python: str = ""
    simulator: Found | None = None
    card: Card | None = None

    @property
    def taken(self) -> list[Launch]:
        """The launches that were compiled."""
        return [launch for launch in self.launches if launch.taken]


def record(
    invocation: Invocation, told: Target, targets: Sequence[Target], options: Options, folder: Path
) -> Recording:
    """Run the program, with its output on this terminal, and return what was recorded and compiled.

    ``folder`` is emptied and then holds the files of the recorder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = folder / "settings.json"
    settings.write_text(json.dumps(settings_of(told, targets, options, folder)), encoding="utf-8")
    command = [invocation.python, *invocation.options, str(_START), str(settings), *invocation.program]
    environment = dict(os.environ)
    if "PYTHONDONTWRITEBYTECODE" in environment:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if options.packages:
        search = [*(str(folder.resolve()) for folder in options.packages), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, search))
    status = _run(command, environment)
    return replace(read(folder, told, targets, status), simulator=options.simulator, card=options.card)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command and return its status. If a signal ends this, nothing that it has started stays at work."""
    processes.adopt_orphans()  # a compiler is in a group of its own, and outlives the program that started it
    try:
        return subprocess.run(command, check=False, env=environment).returncode
    except KeyboardInterrupt:
        processes.orphans_of(None)
        raise


def settings_of(told: Target, targets: Sequence[Target], options: Options, folder: Path) -> dict[str, Any]:
    return {
        "told": told.for_recorder,
        "targets": [target.for_recorder for target in targets],
        "interpret": options.interpret,
        "configurations": options.configurations,
        "specialisations": options.specialisations,
        "jobs": options.jobs,
        "seconds": options.seconds,
        "memory": int(options.memory_gib * 2**30),
        "cache": str(options.cache.resolve()),
        "output": str(folder.resolve()),
        "commands": [str(path.resolve()) for path in options.commands],
        "emulate": list(options.emulate),
        "emulator": str(options.emulator),
        "simulator": options.simulator and options.simulator.for_recorder,
        "card": options.card.for_recorder if options.card else {},
    }


def read(folder: Path, told: Target, targets: Sequence[Target], status: int) -> Recording:
    vendor, targets = told.vendor, tuple(targets)
    file = folder / "recording.json"
    if not file.exists():
        end = f"signal {-status}" if status < 0 else f"status {status}"
        return Recording(vendor, told, targets, f"it ended with {end} before its launches could be written down")
    content = json.loads(file.read_text(encoding="utf-8"))
    lines = (folder / "compiled.jsonl").read_text(encoding="utf-8").splitlines()
    return Recording(
        vendor=vendor,
        told=told,
        targets=targets,
        fault=content["error"],
        seconds=content["seconds"],
        total=content["total"],
        launches=tuple(Launch(**launch) for launch in content["launches"]),
        compiled=tuple(Compiled(**json.loads(line)) for line in lines if line.endswith("}")),
        unanswered=content["unanswered"],
        assumed=content["assumed"],
        versions=content["versions"],
        compilers=content["compilers"],
        warnings=_warnings(folder / "warnings.json"),
        python=content["python"],
    )


def _warnings(file: Path) -> Sequence[str]:
    """Return the warnings that Triton gave in the program's process; none where it was ended before."""
    return tuple(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else ()


Outcome = Literal["pass", "fail", "error", "unavailable"]
_SKIPPED = ("CompileTimeAssertionFailure", "PTXASError", "ptxas")


def outcome_of(compiled: Compiled, launch: Launch) -> tuple[Outcome, str, str]:
    """Return the outcome, the stage of an error, and the message."""
    if compiled.stage == "unavailable":
        return "unavailable", "", compiled.message
    stage, message = compiled.stage, compiled.message
    if not stage and (fault := over_limits(known()[compiled.target], compiled.figures)):
        stage, message = "launch", fault
    if stage:
        if launch.tuned and (stage == "launch" or compiled.message.startswith(_SKIPPED)):
            place = f"it is configuration {launch.tuned[1] + 1} of an autotuned launch"
            message += f"; {place}: Triton skips it if another works"
        return "error", stage, message
    if compiled.findings:
        return "error", "launch", "; ".join(compiled.findings)
    if compiled.numbers is not None and compiled.numbers.faults:
        return "fail", "", "; ".join(compiled.numbers.faults)
    return "pass", "", ""
