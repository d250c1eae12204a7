"""Compile, and perhaps emulate, what one package launches with one release of Triton, as rows that can be kept."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.paths import without_folders
from kernel_matrix.tools.launches import emulated
from kernel_matrix.tools.launches.invocation import invocation
from kernel_matrix.tools.launches.recording import Compiled, Launch, Options, Recording, outcome_of, record
from kernel_matrix.tools.launches.reproducer import reproducer
from kernel_matrix.tools.launches.targets import known, targets_named, told
from kernel_matrix.tools.watch.plan import Package

_MOST = 300  # characters of a message
_ABSENT = re.compile(r"No module named '([\w-]+)")


@dataclass(frozen=True)
class Row:
    """The end of one launch for one target. ``launch`` is the digest of its types, constants and options."""

    kernel: str
    target: str
    launch: str
    outcome: str
    stage: str = ""
    message: str = ""
    registers: int = 0
    spills: int = 0


@dataclass(frozen=True)
class Ran:
    """Keep what one package did with one release: its rows, the end of its program, warnings, reproducers of errors.

    A reproducer has the key of its error.
    """

    rows: tuple[Row, ...] = ()
    fault: str = ""
    warnings: tuple[str, ...] = ()
    reproducers: Mapping[str, str] | None = None

    def as_json(self) -> dict[str, object]:
        """Return it as it is kept."""
        fields = list(Row.__dataclass_fields__)
        rows = [[getattr(row, name) for name in fields] for row in self.rows]
        return {**asdict(self), "rows": rows, "reproducers": dict(self.reproducers or {})}

    @classmethod
    def of_json(cls, data: Mapping[str, object]) -> Ran:
        """Return what was kept."""
        rows = tuple(Row(*row) for row in data["rows"])  # type: ignore[attr-defined]  # of a file of this program
        return cls(rows, str(data["fault"]), tuple(data["warnings"]), data["reproducers"])  # type: ignore[arg-type]


def ran(
    python: str, package: Package, targets: Sequence[str], folders: Sequence[Path], options: Options, folder: Path
) -> Ran:
    """Run the program of a package with the distributions in the folders, and return what came of it."""
    chosen = targets_named([*(package.targets or targets), *package.emulate])
    call = invocation([python, str(package.calls)])
    if package.emulate:
        options = Options(**{**vars(options), "emulator": emulated.emulator_for(call, package.emulate)})
    rows: list[Row] = []
    faults, warnings, programs = dict[str, list[str]](), dict[str, None](), dict[str, str]()
    before = {name: os.environ.get(name) for name in package.environment}
    os.environ.update(package.environment)
    try:
        devices = told([*reversed(package.emulate), *filter(None, [package.told])], chosen)
        for vendor, device in devices.items():
            of_vendor = [target for target in chosen if target.vendor.name == vendor]
            done = record(call, device, of_vendor, options, folder / vendor)
            done = emulated.compared(done, folder / vendor)
            if done.fault:
                faults.setdefault(done.fault, []).append(device.name)
            warnings |= dict.fromkeys(done.warnings)
            for row, launch, compiled in _rows(done):
                rows.append(row)
                warnings |= dict.fromkeys(compiled.warnings)
                if row.outcome in ("error", "fail") and (text := reproducer(launch, known()[row.target])[0]):
                    programs.setdefault(key_of(row), text)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    clean = {str(folder): "", str(Path.cwd()): "."} | {str(one): "" for one in folders}
    fault = "; ".join(in_words(text, devices) for text, devices in faults.items())
    return Ran(tuple(rows), without_folders(fault, clean)[:_MOST], tuple(warnings), programs)


def in_words(fault: str, devices: Sequence[str]) -> str:
    """Return how a program ended, told of some devices, and what `packages.yaml` lacks if that is why."""
    absent = _ABSENT.search(fault)
    remedy = f"; put the distribution that has {absent[1]} into `requires`" if absent else ""
    return f"told of {' and '.join(devices)}: {fault}{remedy}"


def key_of(row: Row) -> str:
    """Return the key of a row's reproducer: one is enough for each error of a package."""
    return row.message[:60]


def _rows(recording: Recording) -> Iterator[tuple[Row, Launch, Compiled]]:
    launches = {launch.identity: launch for launch in recording.launches}
    for one in recording.compiled:
        launch = launches[one.identity]
        outcome, stage, message = outcome_of(one, launch)
        figures = {name: int(one.figures.get(name, 0)) for name in ("registers", "spills")}
        message = without_folders(" ".join(message.split()), {str(Path.cwd()): "."}, packages=True)[:_MOST]
        row = Row(f"{launch.module}.{launch.kernel}", one.target, _digest(launch), outcome, stage, message, **figures)
        yield row, launch, one


def _digest(launch: Launch) -> str:
    """Return what a launch is in every release: its identity has the source of Triton's own functions in it."""
    parts = [sorted(one.items()) for one in (launch.types, launch.constants, launch.options)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]


def program_digest(package: Package) -> str:
    """Return the digest of the program of a package, of the programs beside it that it may import, and of a checkout.

    Raises:
        UserError: the program is not there.
    """
    content = hashlib.sha256()
    if not package.calls.is_file():
        raise UserError(f"{package.calls}: there is no such program")
    beside = [package.calls, *sorted(package.calls.parent.glob("calls*.py"))]
    for path in [*beside, *(sorted(package.path.rglob("*.py")) if package.path else [])]:
        content.update(path.read_bytes())
    return content.hexdigest()
