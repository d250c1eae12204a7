"""What probes and sweeps have shown, as the page and compat.json have it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernel_matrix.diagnosis import Diagnosis


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProbeVerdict(_Model):
    """What came of a probe in one environment."""

    verdict: str = Field(description="works, known, changed, unavailable or missing.")
    reason: str
    error: str = Field(description="The exact error; empty where the probe did not fail.")
    diagnosis: Diagnosis | None


class ProbeEntry(_Model):
    """One question, with its answer in every environment that has what it asks about."""

    id: str
    asks: str
    means: str
    met: str
    truth: str
    link: str
    needs: tuple[str, ...]
    verdicts: dict[str, ProbeVerdict] = Field(description="By the environment, which has the name of its lock.")


class Family(_Model):
    """The probes of one folder, and the environments in which some of them were run."""

    name: str
    toolchains: tuple[str, ...]
    probes: tuple[ProbeEntry, ...]


class Question(_Model):
    """A probe that a sweep asked."""

    id: str
    asks: str


class Pair(_Model):
    """How far a version gets beside a version of another distribution."""

    state: str = Field(description="works, fails, or the stage that it did not pass.")
    reason: str


class Grid(_Model):
    """A sweep over versions of two distributions."""

    beside: str = Field(description="The other distribution.")
    columns: tuple[str, ...] = Field(description="Its versions.")
    cells: dict[str, dict[str, Pair]] = Field(description="By the version, and by that of the other distribution.")


class ProbeOutcome(_Model):
    """What came of a probe in one attempt of a sweep."""

    verdict: str
    outcome: str
    stage: str
    reason: str


class OpOutcome(_Model):
    """What came of a case or cell in one attempt of a sweep."""

    case: str
    state: str
    evidence: str
    cases: str = Field(description="How many cases ended in which state.")
    stage: str
    reason: str


class Attempt(_Model):
    """One version that a sweep tried."""

    version: str
    pins: str
    picked: str = Field(description="The versions of interest that the installer picked beside it.")
    stopped: str = Field(description="The stage at which it stopped; empty if it got through.")
    message: str
    cause: str
    remedy: str
    lock: tuple[str, ...]
    counts: dict[str, int] = Field(description="How many probes have each verdict.")
    probes: dict[str, ProbeOutcome]
    op: OpOutcome | None = Field(description="The state of the operator, where one was run.")


class Sweep(_Model):
    """A kept result of a sweep over the versions of one distribution."""

    title: str
    package: str
    created: str
    case: str
    attempts: tuple[Attempt, ...]
    grid: Grid | None
    probes: tuple[Question, ...]


class ToolchainView(_Model):
    """All probes and all kept sweeps."""

    headline: str = ""
    changed: tuple[str, ...] = Field(default=(), description="The probes that do not do what is known of them.")
    families: tuple[Family, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
