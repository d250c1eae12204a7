"""The document of a report: the content of compat.json, from which the page and the summary are made.

The JSON Schema of compat.json is made from these models.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, TypeAdapter

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.base.models import Lenient, Strict
from kernel_matrix.diagnosis import Diagnosis
from kernel_matrix.report.checks import Check
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.results.agreement_tables import AgreementReport
from kernel_matrix.results.history import LaneHistory
from kernel_matrix.results.states import State


class RunNotes(Strict):
    """Two sentences about the run; each is empty if it does not apply."""

    running: str = Field(default="", description="How many jobs of a run have ended, while it still goes on.")
    kept: str = Field(default="", description="Which results were kept from earlier runs.")


FILE = "compat.json"
SCHEMA_VERSION = 2

# JSON has no number that is not finite, so "inf" and "nan" are written as strings.
Number = int | float | str


# There are many cells and figures, so they are dataclasses: a model takes ten times the memory, and checks its values.
@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The error that came nearest to its budget, over all cases of a cell."""

    case: str
    output: str
    figure: Annotated[str, Field(description="max_abs or rel_fro.")]
    error: Number
    limit: Number
    share: Annotated[Number, Field(description="The error divided by the limit.")]
    noise_ratio: Annotated[
        Number | None, Field(description="The output's rel_fro over the baseline's rel_fro, in this case.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise ratio of an output over all cases of one dtype together."""

    ratio: Annotated[Number | None, Field(description="Null where the baseline has no error.")]
    misrounded: Annotated[
        Number | None,
        Field(
            description="The share of the elements that are not the correctly rounded golden, of an output that is "
            "narrower than fp32."
        ),
    ]
    floor_misrounded: Annotated[Number | None, Field(description="The same share of the baseline's elements.")]
    elements: Annotated[int, Field(description="The elements that count: at most 1,000 of each case.")]
    cases: int
    evidence: Annotated[Evidence, Field(description="The least evidence of these cases: ran or emulated.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """The code that came out of the compilers: its kinds, and the largest of each resource over the cases."""

    kinds: tuple[str, ...]
    largest: dict[str, Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """Faults that were put into results, and how many of them the comparison found."""

    injected: int
    caught: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparingLine:
    """A line of the suite that compares, and what it made of faults in copies of results."""

    at: Annotated[str, Field(description="The file and the line; and the test's line, where another file compares.")]
    call: str
    seen: Annotated[int, Field(description="The faults that it found every time.")]
    faults: Annotated[int, Field(description="The faults that it was asked about.")]
    lets_through: tuple[str, ...]
    allows: Annotated[
        Number | None,
        Field(description="How far it lets one element be off, to a fortieth; inf where any number passes."),
    ]
    at_least: Annotated[bool, Field(description="Whether it compared more than could be asked, and may allow more.")]
    budget: Annotated[Number | None, Field(description="Four times the noise of the results that it compared.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Say what the suite's own comparisons see of known faults that were put into copies of results."""

    seen: Annotated[int, Field(description="The kinds of faults that every line found that was asked about them.")]
    faults: Annotated[int, Field(description="The kinds of faults that lines were asked about.")]
    cases: Annotated[int, Field(description="The cases in which a line was asked.")]
    lines: Annotated[tuple[ComparingLine, ...], Field(description="Those that let most through first.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Determinism:
    """Runs of a kernel on the same inputs as one before, and how many of them gave other bits."""

    repeats: int
    differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The seconds that a case took, and those that the baseline took."""

    run: float
    baseline: float
    ratio: Annotated[float, Field(description="How many times as fast as the baseline the kernel is.")]
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed(Times):
    """The times of a case that passed."""

    case: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutline:
    """The part of a cell that reports are compared by."""

    id: str
    state: State
    evidence: Evidence
    stale: Annotated[str, Field(description="Why its first stale case is stale; empty if no case is.")] = ""
    emulated: Annotated[int, Field(description="Its cases that an emulator or an interpreter ran.")] = 0
    cases: Annotated[dict[State, int], Field(description="The number of cases by state, worst first.")] = field(
        default_factory=dict
    )
    reason: str = ""
    repeat: Annotated[str, Field(description="The command that repeats the cell.")] = ""
    noise: Annotated[
        dict[str, dict[str, Noise]], Field(description="By dtype, and then by output; the least exact output first.")
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(CellOutline):
    """The state of a cell: one square of the page."""

    package: str
    platform: str
    target: str
    toolchain: str
    backend: str
    op: str
    direction: str
    planned: int
    stale_cases: int
    stage: str
    diagnosis: Diagnosis | None
    error: Annotated[str, Field(description="The exact error of a cell that fails as expected.")]
    accuracy: Accuracy | None
    artifact: Artifact | None
    canaries: Canaries | None
    determinism: Annotated[Determinism | None, Field(description="None if no case says that it ran twice.")] = None
    checks: Annotated[
        tuple[str, ...],
        Field(
            description="How many of the checks of its operator's description its cases had, and which were not asked: "
            "one text, or several where its cases differ. Empty where the operator is not described."
        ),
    ] = ()
    comparisons: Annotated[Comparisons | None, Field(description="None if no comparison of a suite was asked.")] = None
    timed: tuple[Timed, ...]
    versions: Annotated[dict[str, tuple[str, ...]], Field(description="More than one of a name where machines differ.")]
    lock: str
    seconds: Annotated[float, Field(exclude=True, description="The seconds of all its cases.")] = 0.0
    measured: Annotated[tuple[int, ...], Field(exclude=True, description="The jobs that measured outputs of it.")] = ()


class Lane(Lenient):
    """A toolchain on a target of a platform: the worst state of its cells, and their number by state and evidence."""

    platform: str
    target: str
    toolchain: str
    state: State
    evidence: Evidence
    cells: int
    by_state: dict[State, int]
    by_evidence: dict[Evidence, int]
    emulated: int = Field(description="The cells of which an emulator or an interpreter ran a case.")
    stale_by_evidence: dict[Evidence, int] = Field(description="The stale cells by their evidence.")
    canaries: Canaries | None
    determinism: Determinism | None = None
    history: LaneHistory

    @property
    def id(self) -> str:
        """``PLATFORM/TARGET/TOOLCHAIN``."""
        return f"{self.platform}/{self.target}/{self.toolchain}"

    @property
    def stale(self) -> int:
        """The number of stale cells."""
        return sum(self.stale_by_evidence.values())


class SilentLane(Lenient):
    """A planned lane without a result in this run, or whose results in it are older than ``silent_days``."""

    lane: str
    last_result: str | None = Field(description="The start of the newest job that tried a case of it; null: none did.")
    silent_since: str = Field(
        description="Its last result, if this run has a result of it; else the first run without."
    )
    days: float = Field(description="The days since its last result; if it never had one, since it is silent.")
    gone: bool = Field(description="Whether the last result is so old that the badge is grey.")


class StaleReason(Lenient):
    """A reason for which results are stale, and the number of cases that it makes stale."""

    reason: str
    cases: int


class TimedCase(Lenient):
    """A timed case of an operator on a target, with the times of every toolchain."""

    platform: str
    target: str
    op: str
    case: str
    toolchains: dict[str, Times]


class BenchTime(Lenient):
    """The time of a run of one contender of the benchmark, in microseconds, and its error."""

    median_us: float
    p5_us: float = Field(description="The 5th percentile of the samples.")
    p95_us: float = Field(description="The 95th percentile.")
    samples: float
    rel_fro: Number | None = Field(description="The largest error over its outputs, over the golden's norm.")


class BenchResult(Lenient):
    """The benchmark of one operator, shape and toolchain on one device."""

    platform: str
    target: str
    toolchain: str
    op: str
    direction: str
    case: str
    outcome: str
    message: str = Field(description="Why it was not timed; empty if it was.")
    stale: str
    device: str
    commit: str
    started: str
    quick: bool = Field(description="Whether this was the quick form, with small shapes and few samples.")
    disturbed: str = Field(description="What else used the device or lowered its clock meanwhile; empty if nothing.")
    time: BenchTime | None
    figures: dict[str, Number] = Field(
        description="``floor_us`` is the time that a copy of as many bytes takes, ``floor_share`` that over the median."
    )
    rivals: dict[str, BenchTime] = Field(description="Those timed in the same process on the same device.")
    absent: dict[str, str] = Field(description="The rivals that were not timed, each with the reason.")
    facts: dict[str, str]


class UndiagnosedError(Lenient):
    """An error that no rule of the diagnosis knows."""

    stage: str
    message: str
    cases: int


class PlatformEntry(Lenient):
    """A platform and its targets."""

    name: str
    title: str
    vendor: str = Field(default="", description="Whose devices run it, as matrix.yaml names the vendor.")
    vendor_title: str = Field(default="", description="The vendor's name for people.")
    targets: tuple[str, ...]


class RunOutline(Lenient):
    """The part of a run that names the report."""

    tier: str
    created: str
    commits: tuple[str, ...] = ()


class Run(RunOutline):
    """The plan of the run, and the number of cells and cases in each state."""

    package: str
    baseline: str = Field(description="What errors and times are compared with.")
    devices: tuple[str, ...]
    cells: int
    cells_by_state: dict[State, int]
    cells_by_evidence: dict[Evidence, int]
    emulated: int = Field(description="The cells of which an emulator or an interpreter ran a case.")
    stale_by_evidence: dict[Evidence, int] = Field(description="The stale cells by their evidence.")
    cases: int
    cases_by_state: dict[State, int]
    stale_cases: int
    unplanned: int = Field(description="Results that belong to no planned case.")
    left_out: int = Field(description="Cases of the tier that were not asked for, or have not run, and are not here.")

    @property
    def stale(self) -> int:
        """The number of stale cells."""
        return sum(self.stale_by_evidence.values())


class Outline(Lenient):
    """The part of a document that every version has: enough to compare an earlier report with."""

    schema_version: int
    run: RunOutline
    cells: tuple[CellOutline, ...]


class Document(Outline):
    """The whole content of a report."""

    run: Run
    platforms: tuple[PlatformEntry, ...]
    lanes: tuple[Lane, ...]
    silent_days: float = Field(description="The days without a result after which the badge of a lane is grey.")
    silent: tuple[SilentLane, ...]
    stale: tuple[StaleReason, ...]
    speed: tuple[TimedCase, ...]
    bench: tuple[BenchResult, ...] = Field(default=(), description="The results of the benchmark.")
    undiagnosed: tuple[UndiagnosedError, ...]
    problems: tuple[str, ...] = Field(description="Results that were broken or refused.")
    notes: tuple[str, ...] = Field(description="What could not be known of these results.")
    run_notes: RunNotes
    toolchains: Toolchains
    checks: tuple[Check, ...] = Field(default=(), description="What was looked for by other checks than the cases.")
    agreement: AgreementReport = Field(default=AgreementReport(), description="Who agrees with whom, from samples.")
    cells: tuple[Cell, ...]
    jobs: tuple[dict[str, str], ...] = Field(description="What the jobs of the results have in common.")


_CELL = TypeAdapter(Cell)


def cell_as_json(cell: Cell, indent: int | None = None) -> bytes:
    """Return a cell as compat.json has it.

    Raises:
        PydanticSerializationError: UTF-8 does not have some text.
    """
    return _CELL.serializer.to_json(cell, indent=indent)


def schema() -> str:
    """Return the JSON Schema of compat.json."""
    content = Document.model_json_schema(mode="serialization")
    content["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    content["title"] = FILE
    content["properties"]["schema_version"]["const"] = SCHEMA_VERSION
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
