"""The data that the page loads: an overview at once, and details when somebody asks for them.

Each file of data is a script that calls ``kernelMatrix.put(NAME, VALUE)``, because a page that is opened from a file
may load scripts and may not fetch. The names are ``overview``, ``cells/NUMBER``, ``agreement``, ``toolchains``,
``speed`` and ``history``. The page's TypeScript types are made from the JSON Schema of these models.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.report.document import (
    CaseResult,
    Cell,
    Lane,
    Number,
    PlatformEntry,
    Run,
    SilentLane,
    StaleReason,
    TimedCase,
    UndiagnosedError,
)
from kernel_matrix.report.notes import RunNotes
from kernel_matrix.results.compare import State


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StateWord(_Model):
    """A state of a case: its letter in ``case_states``, and what it means."""

    letter: str
    name: State
    meaning: str
    red: bool


class CellColumns(_Model):
    """The cells, a list for each property; all lists have the same length, in the order of the grid.

    A number that is an index refers to the list of the overview that the description names.
    """

    lane: list[int] = Field(description="Index into ``lanes``.")
    op: list[int] = Field(description="Index into ``ops``.")
    state: list[int] = Field(description="Index into ``states``.")
    evidence: list[int] = Field(description="Index into ``evidence``.")
    case_states: list[str] = Field(description="A letter for each case of the op, in the order of its ``cases``.")
    stale: list[int] = Field(description="The number of stale cases.")
    reason: list[int] = Field(description="Index into ``texts``: the reason of the state.")
    stage: list[int] = Field(description="Index into ``texts``: where an error stopped.")
    rule: list[int] = Field(description="Index into ``texts``: the rule of the diagnosis.")
    noise: list[Number | None] = Field(description="The largest noise ratio of its outputs.")
    noise_by_dtype: dict[str, list[Number | None]] = Field(
        description="The noise ratio of the least exact output; null where it is not known, or the baseline is exact."
    )
    noise_output_by_dtype: dict[str, list[int | None]] = Field(
        description="Index into ``texts``: the least exact output; null where nothing was measured."
    )
    noise_evidence_by_dtype: dict[str, list[int | None]] = Field(
        description="Index into ``evidence``: the least evidence of the cases of that output."
    )
    share: list[Number | None] = Field(description="The error that came nearest to its limit, over that limit.")
    speed: list[Number | None] = Field(description="The largest ratio to the baseline's time.")
    seconds: list[float] = Field(description="The seconds of all its cases.")
    odd: list[bool] = Field(description="Whether it was the odd one out in some output.")
    chunk: list[int] = Field(description="The NUMBER of the file ``cells/NUMBER`` that has its details.")


class Op(_Model):
    """An operator in one direction, and the names of its cases."""

    op: str
    direction: str
    cases: list[str]


class Overview(_Model):
    """What the page shows first: every cell, and all totals."""

    schema_version: int
    title: str
    headline: str
    run: Run
    run_notes: RunNotes
    silent_days: float
    states: list[StateWord]
    evidence: list[Evidence]
    platforms: list[PlatformEntry]
    vendors: list[str] = Field(description="The vendor of each platform, in the order of ``platforms``.")
    lanes: list[Lane]
    backends: list[str] = Field(description="The backend of each lane, in the order of ``lanes``.")
    ops: list[Op]
    cells: CellColumns
    texts: list[str]
    silent: list[SilentLane]
    stale: list[StaleReason]
    undiagnosed: list[UndiagnosedError]
    notes: list[str]
    problems: list[str]
    has: list[str] = Field(description="The names of the other files of data that exist, without ``cells``.")


class CellDetail(_Model):
    """One cell with all its cases."""

    cell: Cell
    results: list[CaseResult] = Field(description="``detail`` of each is the place of its text in ``texts``.")


class CellChunk(_Model):
    """The details of some cells; every long text is in it once, because tracebacks repeat."""

    cells: dict[str, CellDetail] = Field(description="By the cell's id, PLATFORM/TARGET/TOOLCHAIN/OP.DIRECTION.")
    jobs: dict[str, dict[str, str]] = Field(description="What the jobs of these results have in common, by number.")
    texts: list[str]


class SpeedData(_Model):
    """The times of every timed case."""

    cases: list[TimedCase]


class Transition(_Model):
    """A cell whose state changed from one run to the next, and what else had changed."""

    cell: str
    before: str
    after: str
    since: str = Field(description="The start of the first run with the new state.")
    commit: str
    commit_before: str
    versions: dict[str, tuple[str, str]] = Field(
        description="The distributions whose version changed, before and after."
    )
    reason: str


class Trend(_Model):
    """The figures of a cell over the runs of one device, the oldest first."""

    cell: str
    device: str
    started: list[str]
    commits: list[str]
    noise: dict[str, list[float | None]] = Field(description="By DTYPE/OUTPUT.")
    speed: dict[str, list[float | None]] = Field(description="By timed case.")
    seconds: dict[str, list[float | None]] = Field(description="By timed case.")


class HistoryData(_Model):
    """The transitions, the newest first, and the trends."""

    transitions: list[Transition]
    trends: list[Trend]
