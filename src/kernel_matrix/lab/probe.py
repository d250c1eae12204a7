"""Probes: small programs that each ask one question of a toolchain, with what is expected of every version.

A probe is a file ``probes/FAMILY/NAME.py`` that runs by itself (``python NAME.py``). It ends well when what it asks for
holds, and with an exception, or the death of its process, when it does not. A block of comments at its top,
``# /// probe``, holds TOML in the manner of Python's inline script metadata. It is read as data; the program never
sees it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.names import NeedName
from kernel_matrix.results.record import Record, versions_of

Verdict = Literal["changed", "missing", "unavailable", "known", "works"]
VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]

_BLOCK = re.compile(r"^# /// probe\n((?:#.*\n)+?)# ///$", re.MULTILINE)
_PREFIX = "probe/"


class Window(BaseModel):
    """What is expected of the versions that it names; of all of them when it names none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    versions: list[str] = Field(default_factory=list, description="Requirements that all hold (PEP 508).")
    verdict: Literal["works", "fails"]
    match: str = Field(default="", description="What the exact error contains, as a regular expression.")

    @model_validator(mode="after")
    def _a_failure_is_known_by_its_error(self) -> Window:
        if (self.verdict == "fails") != bool(self.match):
            raise ValueError("a window that 'fails' says which error by 'match', and one that 'works' has none")
        re.compile(self.match)
        return self


class Probe(BaseModel):
    """One question to a toolchain."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path
    asks: str = Field(min_length=10, description="The question.")
    means: str = Field(min_length=10, description="What it means if the program ends well.")
    met: str = Field(min_length=5, description="Where the failure was met.")
    truth: str = Field(min_length=5, description="What it really was.")
    link: str = ""
    requires: list[str] = Field(min_length=1, description="What an environment must have for it to make sense.")
    needs: list[NeedName] = Field(default_factory=list, description="What the machine must have beside it.")
    seconds: float = Field(default=180, gt=0, description="The time limit.")
    expect: list[Window] = Field(min_length=1, description="The first window that holds for the versions counts.")

    @property
    def id(self) -> str:
        """``tilelang/is_cpu``."""
        return f"{self.path.parent.name}/{self.path.stem}"

    def makes_sense_with(self, versions: Mapping[str, str]) -> bool:
        """Whether the environment has what the probe asks about."""
        return satisfies(self.requires, versions)

    def expected(self, versions: Mapping[str, str]) -> Window | None:
        """The window of these versions."""
        return next((window for window in self.expect if satisfies(window.versions, versions)), None)


@dataclass(frozen=True)
class Judged:
    """A probe in one toolchain: the verdict, and a sentence that says why."""

    probe: Probe
    toolchain: str
    verdict: Verdict
    reason: str
    record: Record | None


def load_probes(folder: Path) -> tuple[Probe, ...]:
    """Read the headers of all probes below ``folder``.

    Raises:
        UserError: a file has no header or a faulty one.
    """
    return tuple(_read(path) for path in sorted(folder.glob("*/*.py")))


def _read(path: Path) -> Probe:
    found = _BLOCK.search(path.read_text(encoding="utf-8"))
    if not found:
        raise UserError(f"{path}: a probe begins with a block '# /// probe' of TOML; see docs/toolchains.md.")
    text = "".join(line.removeprefix("#").removeprefix(" ") for line in found[1].splitlines(keepends=True))
    try:
        return Probe.model_validate({"path": path, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: its header is not TOML: {error}. Correct it there.") from None
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise UserError(f"{path}: header: {where}: {fault['msg']}. Correct it there.") from None


def record_id(toolchain: str, probe: Probe) -> str:
    """The id that a probe's record has in JUnit XML."""
    return f"{_PREFIX}{toolchain}/{probe.id}"


def is_probe_record(record: Record) -> bool:
    """Whether a record is a probe's and not a case's."""
    return record.case.startswith(_PREFIX)


def judge(probe: Probe, toolchain: str, record: Record | None) -> Judged:
    """Hold what came of a probe against what is expected of its versions. A pure function."""
    if record is None:
        return Judged(probe, toolchain, "missing", "no result came", None)
    if record.outcome in ("unavailable", "missing"):
        return Judged(probe, toolchain, record.outcome, record.message, record)
    verdict, reason = _compare(probe.expected(versions_of(record.job)), record)
    return Judged(probe, toolchain, verdict, reason, record)


def _compare(window: Window | None, record: Record) -> tuple[Verdict, str]:
    said = record.message.splitlines()[0] if record.message else record.stage
    if record.outcome == "pass":
        if window and window.verdict == "fails":
            return "changed", f"it works, and these versions were known to fail with {window.match!r}"
        return "works", ""
    if window is None or window.verdict == "works":
        return "changed", f"it fails, and these versions are not known to: {said}"
    if re.search(window.match, f"{record.message}\n{record.detail}"):
        return "known", said
    return "changed", f"it fails, and not with {window.match!r} as known: {said}"


def judge_all(probes: Sequence[Probe], records: Sequence[Record], toolchains: Sequence[str]) -> tuple[Judged, ...]:
    """Every probe in every toolchain that has a record of it; a toolchain of the matrix without any is missing."""
    judged: list[Judged] = []
    # Of several machines' records the one that tried decides, so that "unavailable" counts only when all say so.
    by_id: dict[str, Record] = {}
    for record in sorted(records, key=lambda record: record.outcome in ("unavailable", "missing"), reverse=True):
        by_id[record.case] = record
    seen = dict.fromkeys([*toolchains, *(record.case.split("/")[1] for record in records if is_probe_record(record))])
    for toolchain in seen:
        own = [record for case, record in by_id.items() if case.startswith(f"{_PREFIX}{toolchain}/")]
        versions = versions_of(own[0].job) if own else {}
        for probe in probes:
            found = by_id.get(record_id(toolchain, probe))
            if found or (own and probe.makes_sense_with(versions)):
                judged.append(judge(probe, toolchain, found))
    return tuple(judged)
