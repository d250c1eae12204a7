"""Plan and Records -> Verdicts: the state of every planned case, and of every cell. Pure functions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.model import Expectation
from kernel_matrix.config.plan import Case, Cell, Plan
from kernel_matrix.config.rule_state import RuleState
from kernel_matrix.config.until import over_on, over_with
from kernel_matrix.results.canaries import faults_of_jobs
from kernel_matrix.results.common_figures import CommonFigures, common_figures
from kernel_matrix.results.deciding import CommonInputs, Dated, badness, common_inputs, deciding
from kernel_matrix.results.present import Present
from kernel_matrix.results.proof import evidence_of
from kernel_matrix.store.record import Record, versions_of

State = Literal[
    "fail",
    "error",
    "fixed",
    "missing",
    "flaky",
    "known",
    "unavailable",
    "lowered",
    "compiled",
    "held",
    "pass",
    "excluded",
]
# From the worst: a cell is as bad as its worst case, and excluded only when all of its cases are.
STATES: tuple[State, ...] = State.__args__  # type: ignore[attr-defined]
RED: frozenset[State] = frozenset({"fail", "error", "fixed", "missing"})


@dataclass(frozen=True)
class Others:
    """The word of all results on one of them: on its inputs, its figures, and the comparison of its job."""

    inputs: CommonInputs = field(default_factory=CommonInputs)
    figures: CommonFigures = field(default_factory=CommonFigures)
    jobs: Mapping[int, str] = field(default_factory=dict)  # the fault, by the identity of the job's facts

    def doubt(self, case: Case, dated: Dated) -> str:
        """Return why a record that says pass is not believed; empty if nothing speaks against it."""
        if dated.record.action not in ("run", "emulate"):
            return ""
        if fault := self.figures.fault_of(case, dated):
            return f"the record says that it passed, and {fault}"
        return self.jobs.get(id(dated.record.job), "")


@dataclass(frozen=True)
class Verdict:
    """The state of a planned case.

    ``record`` is the result that decides, None if none came. ``stale`` says why that result may no longer hold for the
    present commit, lock or versions; it is empty if it does.
    """

    case: Case
    state: State
    evidence: Evidence
    reason: str
    record: Record | None
    stale: str = ""


@dataclass(frozen=True)
class CellVerdict:
    """A cell with the verdicts of its cases."""

    cell: Cell
    state: State
    evidence: Evidence
    cases: tuple[Verdict, ...]

    @property
    def counts(self) -> dict[State, int]:
        """The number of cases by state, worst first; they add up to the cell's plan."""
        return _counts(self.cases)

    @property
    def stale(self) -> str:
        """The reason why the first stale case is stale; empty if no case is."""
        return next((verdict.stale for verdict in self.cases if verdict.stale), "")


@dataclass(frozen=True)
class Comparison:
    """All cells, the records that belong to no planned case, and what could not be compared (a sentence each).

    ``not_taken`` has a sentence for each file with results of other tools that are of no planned case. ``ended`` has
    the expectations and exclusions that are over, that match nothing, or whose cases no longer fail. ``presence`` says
    which results are stale; None where nobody asked.
    """

    plan: Plan
    cells: tuple[CellVerdict, ...]
    unplanned: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    not_taken: tuple[str, ...] = ()
    ended: tuple[RuleState, ...] = ()
    presence: Present | None = None

    @property
    def counts(self) -> dict[State, int]:
        """The number of cases of the whole plan by state, worst first."""
        return _counts([verdict for cell in self.cells for verdict in cell.cases])

    @property
    def is_red(self) -> bool:
        """True if a case failed, is missing, or passes although it is expected to fail, or if an entry has ended."""
        return bool(self.ended) or any(state in RED for state in self.counts)


def compare(plan: Plan, records: Iterable[Record], present: Present | None = None) -> Comparison:
    """Judge every planned case by the records of all machines.

    With ``present``, say which of them are stale, and take no expectation whose last day has passed then.
    """
    every = tuple(records)
    by_case: dict[str, list[Record]] = defaultdict(list)
    for record in every:
        by_case[record.case].append(record)
    dated = {case.id: _dated(case, by_case.pop(case.id, ()), present) for case in plan.cases}
    others = _others(plan.cases, dated, every)
    verdicts: dict[Cell, list[Verdict]] = defaultdict(list)
    for case in plan.cases:
        verdicts[case.cell].append(_judge(case, dated[case.id], others, present))
    cells = tuple(_cell(cell, cases) for cell, cases in verdicts.items())
    unplanned = tuple(record for rest in by_case.values() for record in rest)
    notes = (*((present.note,) if present and present.note else ()), *outputs_not_named(plan))
    return Comparison(plan, cells, unplanned, notes, presence=present)


def outputs_not_named(plan: Plan) -> tuple[str, ...]:
    """Return a sentence about the operators whose outputs matrix.yaml does not name; none if it names all."""
    names = {
        f"{case.cell.op}.{case.cell.direction}": None
        for case in plan.cases
        if not (case.owed.outputs or case.owed.asserted)
    }
    if not names:
        return ()
    return (f"matrix.yaml does not name the outputs of {', '.join(names)}: a result is taken with any one output.",)


def _others(cases: Sequence[Case], planned: Mapping[str, Sequence[Dated]], records: Iterable[Record]) -> Others:
    inputs = common_inputs(cases, planned)
    accepted = {
        case.id: [dated for dated in planned[case.id] if not inputs.refuse(case, dated.record)] for case in cases
    }
    of_cases = {name: [dated.record for dated in group] for name, group in accepted.items()}
    jobs = faults_of_jobs(cases, of_cases, records)
    return Others(inputs, common_figures(cases, accepted), jobs)


def judge(case: Case, records: Sequence[Record], present: Present | None = None) -> Verdict:
    """Return the state of one case. Of several records the one that tried most decides; of equals, the worst."""
    return _judge(case, _dated(case, records, present), Others(), present)


def _dated(case: Case, records: Sequence[Record], present: Present | None) -> list[Dated]:
    if present is None:
        return [Dated(record) for record in records]
    cell = case.cell
    return [Dated(record, present.stale(cell.platform, cell.toolchain, record)) for record in records]


def _judge(case: Case, records: Sequence[Dated], others: Others, present: Present | None) -> Verdict:
    if case.exclusion:
        return Verdict(case, "excluded", "planned", f"{case.exclusion.reason}{ending_of_excluded(records)}", None)
    if not records:
        return Verdict(case, "missing", "planned", "no result came", None)
    accepted = [dated for dated in records if not others.inputs.refuse(case, dated.record)]
    if not accepted:
        first = records[0].record
        return Verdict(case, "missing", "planned", others.inputs.refuse(case, first), first)
    dated = deciding(accepted)
    today = present.now.date() if present else None
    state, evidence, reason = state_of(case, dated.record, others.doubt(case, dated), today)
    return Verdict(case, state, evidence, reason, dated.record, dated.stale)


def state_of(case: Case, record: Record, doubt_of_others: str, today: date | None) -> tuple[State, Evidence, str]:
    """Return the state, the evidence and the reason that one record gives its case on a day.

    ``doubt_of_others`` is why the other results speak against it.
    """
    if record.outcome == "excluded":
        return "missing", "planned", "the machine excluded it, and this matrix does not"
    if record.outcome in ("unavailable", "missing"):
        return record.outcome, "planned", record.message
    evidence, doubt = evidence_of(record, case)
    if record.outcome == "pass" and (doubt or doubt_of_others):
        return "error", "planned", doubt or doubt_of_others
    versions = versions_of(record.job)
    hold = [rule for rule in case.expectations if satisfies(rule.versions, versions)]
    expected = [rule for rule in hold if not _is_over(rule, versions, today)]
    if record.outcome == "pass":
        return _passed(record, evidence, expected)
    if rule := next((rule for rule in expected if _is_as_expected(rule, record)), None):
        return "known", evidence, rule.reason
    notes = [doubt] if doubt else []
    notes += [f"expected until {rule.until}, which is over" for rule in hold if _is_as_expected(rule, record)]
    return record.outcome, evidence, " ".join([record.message, *(f"({note})" for note in notes)])


def _is_over(rule: Expectation, versions: Mapping[str, str], today: date | None) -> bool:
    """Return whether an expectation has ended: by its date, or by the versions that a record names."""
    return over_with(rule.until, versions) or (today is not None and over_on(rule.until, today))


def _passed(record: Record, evidence: Evidence, expected: Sequence[Expectation]) -> tuple[State, Evidence, str]:
    if expected:
        reason = f"it passes, and is expected to fail: {expected[0].reason} Take the expectation out of matrix.yaml."
        return "fixed", evidence, reason
    if record.attempts:
        return "flaky", evidence, f"passed after {', '.join(record.attempts)}"
    return (evidence if evidence in ("lowered", "compiled", "held") else "pass"), evidence, ""


def ending_of_excluded(records: Sequence[Dated]) -> str:
    """Return how an excluded case ended, as a sentence, if it was tried all the same."""
    tried = [dated.record for dated in records if dated.record.outcome in ("pass", "fail", "error")]
    if not tried:
        return ""
    worst = max(tried, key=badness)
    if worst.outcome == "pass":
        return " Tried all the same, it passes: take the exclusion out if its reason is gone."
    return f" Tried all the same: {worst.outcome}, {' '.join(worst.message.split())[:200]}"


def _is_as_expected(rule: Expectation, record: Record) -> bool:
    return (
        rule.outcome == record.outcome
        and (rule.stage or "") == record.stage
        and re.search(rule.match, record.text) is not None
    )


def _cell(cell: Cell, cases: Sequence[Verdict]) -> CellVerdict:
    counted = [verdict for verdict in cases if verdict.state != "excluded"]
    if not counted:
        return CellVerdict(cell, "excluded", "planned", tuple(cases))
    state = min((verdict.state for verdict in counted), key=STATES.index)
    evidence = min((verdict.evidence for verdict in counted), key=EVIDENCE.index)
    return CellVerdict(cell, state, evidence, tuple(cases))


def _counts(verdicts: Iterable[Verdict]) -> dict[State, int]:
    counted = Counter(verdict.state for verdict in verdicts)
    return {state: counted[state] for state in STATES if counted[state]}
