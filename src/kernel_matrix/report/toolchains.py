"""The part of the report about toolchains: probes and kept sweeps. Models only; probes fill them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernel_matrix.base.models import Strict

Verdict = Literal["changed", "missing", "unavailable", "known", "works"]


class Cause(Strict):
    """The cause and the remedy of an error; all texts are empty where nothing failed."""

    rule: str = ""
    cause: str = ""
    remedy: str = ""


class ProbeVerdict(Strict):
    """A probe in one environment."""

    verdict: Verdict
    reason: str
    error: str = Field(description="The exact error; empty where the probe passed or was not run.")
    diagnosis: Cause


class ProbeLine(Strict):
    """A probe, with its verdict in each environment that has one."""

    id: str
    asks: str
    means: str
    met: str
    truth: str
    link: str
    needs: tuple[str, ...]
    verdicts: dict[str, ProbeVerdict]


class Family(Strict):
    """The probes of one folder, and the environments in which some of them have a verdict."""

    name: str
    toolchains: tuple[str, ...]
    probes: tuple[ProbeLine, ...]


class SweptProbe(Strict):
    """The result of a probe in one attempt of a sweep."""

    verdict: Verdict
    outcome: str
    stage: str = ""
    reason: str = ""


class SweptCase(Strict):
    """The result of a case in one attempt of a sweep."""

    state: str
    evidence: str = ""
    stage: str = ""
    reason: str = ""
    bits: str = Field(default="", description="A digest of its outputs; empty where nothing ran.")
    figures: dict[str, float] = Field(default_factory=dict, description="What its code needs, and its noise ratio.")


class SweptVersion(Strict):
    """One attempt of a sweep: a version with its pins, and the stage that it stopped at."""

    version: str
    pins: str
    picked: str = Field(description="The versions of interest that the installer picked.")
    stopped: str = Field(description="The stage that it did not pass; empty: it passed all.")
    message: str
    cause: str
    remedy: str
    lock: tuple[str, ...]
    counts: dict[str, int] = Field(description="Probes by verdict.")
    probes: dict[str, SweptProbe]
    cases: dict[str, SweptCase]


class Pair(Strict):
    """The result of one version together with one version of another package."""

    state: str
    reason: str


class Grid(Strict):
    """Every version together with every version of another package."""

    beside: str
    columns: tuple[str, ...]
    cells: dict[str, dict[str, Pair]]


class Asked(Strict):
    """A probe of a sweep, and its question."""

    id: str
    asks: str


class Change(Strict):
    """The first version in which cases differ in one thing, and the version that was tried before it."""

    version: str
    before: str
    what: str
    cases: dict[str, tuple[str, str]] = Field(description="What each case was, and what it is.")


class SweepView(Strict):
    """A kept sweep."""

    title: str
    package: str
    created: str
    case: str
    attempts: tuple[SweptVersion, ...]
    changes: tuple[Change, ...]
    grid: Grid | None
    probes: tuple[Asked, ...]


class Toolchains(Strict):
    """The results of probes and sweeps; empty for a package that has neither."""

    headline: str = ""
    changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = Field(default=(), description="What newer releases will break, a sentence each.")
    families: tuple[Family, ...] = ()
    sweeps: tuple[SweepView, ...] = ()
