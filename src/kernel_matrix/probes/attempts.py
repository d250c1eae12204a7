"""The attempts of a sweep, each of one version of a package, and the file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from packaging.version import Version
from pydantic import Field, ValidationError

from kernel_matrix.base.errors import UserError, first_fault
from kernel_matrix.base.files import XZ, compressed_for, content_of, write_atomically
from kernel_matrix.base.models import Strict
from kernel_matrix.diagnosis import Error
from kernel_matrix.report.toolchains import SweptCase, SweptProbe
from kernel_matrix.results.states import RED, STATES

_END = ".json"  # of the name of a kept sweep

Stage = Literal["resolve", "install", "import", "probes", "cases"]
STAGES: tuple[Stage, ...] = Stage.__args__  # type: ignore[attr-defined]
WITHOUT_IMPORT: tuple[Stage, ...] = ("resolve", "install", "import")  # an attempt that stopped there was not probed


class Attempt(Strict):
    """One version with its pins: the stage that it reached, and the results of its probes and its cases."""

    version: str
    pins: dict[str, str] = Field(default_factory=dict)
    stopped: Stage | Literal[""] = Field(
        default="", description="The stage that it did not pass; empty: it passed all."
    )
    message: str = ""
    detail: str = ""
    versions: dict[str, str] = Field(default_factory=dict, description="Every distribution of its environment.")
    lock: tuple[str, ...] = ()
    probes: dict[str, SweptProbe] = Field(default_factory=dict)
    cases: dict[str, SweptCase] = Field(default_factory=dict, description="By their ids.")

    @property
    def imports(self) -> bool:
        """True if the package imports in its environment."""
        return self.stopped not in WITHOUT_IMPORT

    @property
    def pinned(self) -> str:
        """Its pins in words."""
        return " + ".join(f"{name} {version}" for name, version in self.pins.items())

    @property
    def worst(self) -> SweptCase | None:
        """The case in the worst state; None where none was tried."""
        return min(self.cases.values(), key=lambda case: [*map(str, STATES)].index(case.state), default=None)

    def with_stop(self) -> Attempt:
        """Return the attempt with the stage that its probes and its cases stopped at, if any."""
        changed = [name for name, probe in self.probes.items() if probe.verdict == "changed"]
        if changed:
            return self.model_copy(update={"stopped": "probes", "message": f"changed: {', '.join(changed)}"})
        if (worst := self.worst) and worst.state in RED:
            return self.model_copy(update={"stopped": "cases", "message": worst.reason})
        return self.model_copy(update={"stopped": "", "message": ""})

    @property
    def error(self) -> Error | None:
        """The error that stopped it; None where nothing did."""
        if self.stopped in ("", "probes"):
            return None
        stage = self.worst.stage if self.worst and self.stopped == "cases" else self.stopped
        versions = tuple(sorted(self.versions.items()))
        return f"{self.message}\n{self.detail}", "install" if stage == "resolve" else stage, versions


class Sweep(Strict):
    """All attempts of one package, as a file keeps them.

    ``toolchain`` is the one whose matrix.yaml entry names the versions; empty where a person named them.
    """

    schema_version: Literal[3] = 3
    package: str
    toolchain: str = ""
    created: str
    machine: list[str] = Field(default_factory=list)
    case: str | None = None
    probes: list[str] = Field(default_factory=list)
    attempts: list[Attempt]

    def with_attempts(self, new: Sweep) -> Sweep:
        """Return this sweep with what a newer one has seen.

        Attempts of other versions stay, and so does what was not asked again of the same environment.
        """
        if (self.package, self.toolchain) != (new.package, new.toolchain):
            return new
        by_key = {_key(attempt): attempt for attempt in self.attempts}
        for attempt in new.attempts:
            old = by_key.get(_key(attempt))
            if old and attempt.imports and old.lock == attempt.lock:
                probes = {**old.probes, **attempt.probes}
                cases = {**old.cases, **attempt.cases}
                attempt = old.model_copy(update={"probes": probes, "cases": cases}).with_stop()
            by_key[_key(attempt)] = attempt
        ordered = sorted(by_key.values(), key=lambda attempt: (Version(attempt.version), json.dumps(attempt.pins)))
        asked = list(dict.fromkeys([*self.probes, *new.probes]))
        return new.model_copy(update={"case": new.case or self.case, "probes": asked, "attempts": ordered})


def _key(attempt: Attempt) -> tuple[str, str]:
    return attempt.version, json.dumps(attempt.pins)


def read(path: Path) -> Sweep:
    """Read a kept sweep.

    Raises:
        UserError: the file is not one.
    """
    try:
        return Sweep.model_validate_json(content_of(path))
    except ValidationError as error:
        raise UserError(
            f"{path}: not the result of a sweep ({first_fault(error)}). "
            "Make it anew: `kernel-matrix toolchains sweep PACKAGE --versions 0..`"
        ) from None


def keep(path: Path, sweep: Sweep) -> None:
    """Write a sweep, added to the one that the file holds."""
    whole = read(path).with_attempts(sweep) if path.exists() else sweep
    write_atomically(path, compressed_for(path, json.dumps(whole.model_dump(mode="json"), indent=1) + "\n"))


def kept_sweeps(folder: Path | None) -> Sequence[Path]:
    """Return the files of the kept sweeps of a folder, by name; none where there is no folder."""
    found = [*folder.glob(f"*{_END}"), *folder.glob(f"*{_END}{XZ}")] if folder else []
    return sorted(found, key=name_of)


def name_of(path: Path) -> str:
    """Return the name of a kept sweep, which may be compressed."""
    return path.name.removesuffix(XZ).removesuffix(_END)


def state_of_case(attempt: Attempt, identity: str = "") -> str:
    """Return the state of a case in an attempt, or of the worst of its cases."""
    case = attempt.cases.get(identity) if identity else attempt.worst
    if not case:
        return f"stopped at {attempt.stopped}"
    return f"{case.state}{f' in {case.stage}' if case.stage else ''}"
