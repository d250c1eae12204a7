"""The data that the page loads: an overview at once, and details when somebody asks for them.

Each file of data is a script that calls ``kernelMatrix.put(NAME, VALUE)``, because a page that is opened from a file
may load scripts and may not fetch. The names are ``overview``, ``cells/NUMBER``, ``speed``, ``agreement``,
``toolchains``, ``checks`` and ``history``. The page's TypeScript types are made from the JSON Schema of these models.

A number that is not finite is a string: ``"inf"``, ``"-inf"`` or ``"nan"``. The cases of cells are Arrow tables, which
flechette reads in the page.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.report.checks import Check
from kernel_matrix.report.document import (
    BenchResult,
    Cell,
    Lane,
    Number,
    PlatformEntry,
    Run,
    RunNotes,
    SilentLane,
    StaleReason,
    TimedCase,
    UndiagnosedError,
)
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.results.agreement_tables import AgreementReport
from kernel_matrix.results.states import State

SCHEMA_VERSION = 4
NOT_PLANNED = "."  # in ``case_states``: the cell has no such case


class _Model(BaseModel):
    # Most of them only describe the data, so none is built before it checks something.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class StateWord(_Model):
    """A state of a case: its letter in ``case_states``, and what it means."""

    letter: str
    name: State
    meaning: str
    elsewhere: list[str] = Field(description="What other test runners call it.")
    red: bool
    color: str = Field(description="Its colour on white, as #rrggbb.")


class CellColumns(_Model):
    """The cells, a list for each property; all lists have the same length, in the order of the grid.

    A number that is an index refers to the list of the overview that the description names.
    """

    lane: list[int] = Field(description="Index into ``lanes``.")
    op: list[int] = Field(description="Index into ``ops``.")
    state: list[int] = Field(description="Index into ``states``.")
    evidence: list[int] = Field(description="Index into ``evidence``.")
    case_states: list[str] = Field(
        description="A letter for each case of the op, in the order of its ``cases``; a full stop where the cell has "
        "no such case. Nothing stands for the cases after the cell's last one."
    )
    in_journal: list[str] = Field(
        description="An empty list, but while a run goes on; then, for cells of a job that runs at this moment, as "
        "``case_states``, with the letter of "
        "what the job's journal says of the case, and a full stop where it says nothing yet. The state of such a case "
        "is ``missing``, or red: what passed counts when the job has ended and was judged."
    )
    stale: list[int] = Field(description="The number of stale cases.")
    emulated: list[int] = Field(description="The number of cases that an emulator or an interpreter ran.")
    reason: list[int] = Field(description="Index into ``texts``: the reason of the state, or its beginning.")
    stage: list[int] = Field(description="Index into ``texts``: where an error stopped.")
    rule: list[int] = Field(description="Index into ``texts``: the rule of the diagnosis.")
    noise: list[Number | None] = Field(description="The largest noise ratio of its outputs.")
    noise_by_dtype: dict[str, list[Number | None]]
    noise_output: dict[str, list[int]] = Field(
        description="By dtype, an index into ``texts``: the output with the largest noise ratio."
    )
    noise_evidence: dict[str, list[int]] = Field(
        description="By dtype, an index into ``evidence``: the least evidence of the cases of that output; -1 where "
        "nothing was measured."
    )
    share: list[Number | None] = Field(description="The error that came nearest to its limit, over that limit.")
    speed: list[Number | None] = Field(description="The largest ratio to the baseline's time.")
    seconds: list[float] = Field(description="The seconds of all its cases.")
    odd: list[bool] = Field(description="Whether it was the odd one out in some output.")
    differing: list[int | None] = Field(
        description="The runs on the same inputs as one before that gave other bits; none where no case ran twice."
    )
    chunk: list[int] = Field(description="The NUMBER of the file ``cells/NUMBER`` that has its details.")


class Op(_Model):
    """An operator in one direction, and the names of its cases."""

    op: str
    direction: str
    cases: list[str]


class Overview(_Model):
    """The part that the page shows first: every cell, and all totals."""

    schema_version: int
    title: str
    headline: str
    run: Run
    run_notes: RunNotes
    silent_days: float
    states: list[StateWord]
    stale_meaning: str = Field(description="When a result is stale.")
    evidence: list[Evidence]
    platforms: list[PlatformEntry]
    lanes: list[Lane]
    backends: list[str] = Field(description="The backend of each lane, in the order of ``lanes``.")
    devices: list[list[str]] = Field(description="The devices that measured cells of each lane, in their order.")
    names: dict[str, str] = Field(description="By PLATFORM/TARGET, the words that people have for its devices.")
    repository: str = Field(
        description="The web address of the repository, for links to its lines; empty if not known."
    )
    lacking: list[str] = Field(
        description="What each lane needs to be known better than it is, in the order of ``lanes``; empty where it ran."
    )
    ops: list[Op]
    cells: CellColumns
    texts: list[str]
    silent: list[SilentLane]
    stale: list[StaleReason]
    undiagnosed: list[UndiagnosedError] = Field(description="The 200 most frequent errors that no rule knows.")
    notes: list[str]
    problems: list[str]
    has: list[str] = Field(description="The names of the other files of data that exist, without ``cells``.")


class ChecksData(_Model):
    """The checks, the oldest first."""

    checks: list[Check]


class CellDetail(_Model):
    """One cell. Its cases are the rows of the file's table of cases from ``first`` on, as many as it has planned."""

    cell: Cell
    first: int


class CellChunk(_Model):
    """The details of some cells. Both tables are Arrow streams as Base64; a column without any value is left out."""

    cells: dict[str, CellDetail] = Field(description="By the cell's id, PLATFORM/TARGET/TOOLCHAIN/OP.DIRECTION.")
    cases: str = Field(
        description="A row for each case: its name, its state and evidence as places in the lists of the overview, and "
        "the result that decides it. ``message`` is empty where it is the same as the reason. In ``repeat``, "
        "``{case}`` stands for the id of the case. ``job`` and ``diagnosis`` are JSON."
    )
    outputs: str = Field(
        description="A row for each output, in the order of the cases: the place of its ``case`` in the file, the "
        "``output``'s name, and a column for each figure."
    )


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
    between: str = Field(default="", description="The commits between the two runs, where the checkout has them.")


class Trend(_Model):
    """The figures of a cell over the runs of one device, the oldest first."""

    cell: str
    device: str
    started: list[str]
    commits: list[str]
    noise: dict[str, list[float | None]] = Field(description="By DTYPE/OUTPUT.")
    speed: dict[str, list[float | None]] = Field(description="By timed case.")
    seconds: dict[str, list[float | None]] = Field(description="By timed case.")


class Coverage(_Model):
    """The operators with results on a platform at a commit, and those of which a case passed or held."""

    platform: str
    commit: str
    started: str
    works: int
    operators: int


class HistoryData(_Model):
    """The transitions, the newest first, the trends, and what worked on each platform, the oldest first."""

    transitions: list[Transition]
    trends: list[Trend]
    coverage: list[Coverage] = Field(default_factory=list)


class SpeedData(_Model):
    """The results of the benchmark, and the timed cases of the suite that passed, with all toolchains together."""

    bench: list[BenchResult]
    cases: list[TimedCase]


class PageData(_Model):
    """The models of all files of data, so that one JSON Schema has them all."""

    overview: Overview
    cells: CellChunk
    speed: SpeedData
    agreement: AgreementReport
    toolchains: Toolchains
    checks: ChecksData
    history: HistoryData
