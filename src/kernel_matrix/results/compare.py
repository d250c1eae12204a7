"""Plan and Records -> Verdicts: the state of every planned case, and of every cell. Pure functions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.model import Expectation
from kernel_matrix.config.plan import Case, Cell, Plan
from kernel_matrix.results.record import Record, versions_of

State = Literal[
    "fail", "error", "fixed", "missing", "flaky", "known", "unavailable", "lowered", "compiled", "pass", "excluded"
]
# From the worst: a cell is as bad as its worst case, and excluded only when all of its cases are.
STATES: tuple[State, ...] = State.__args__  # type: ignore[attr-defined]
RED: frozenset[State] = frozenset({"fail", "error", "fixed", "missing"})

Evidence = Literal["planned", "lowered", "compiled", "emulated", "ran"]
EVIDENCE: tuple[Evidence, ...] = Evidence.__args__  # type: ignore[attr-defined]

_ACTIONS = ("", "compile", "emulate", "run")


@dataclass(frozen=True)
class Verdict:
    """What is known of a planned case; ``record`` is the result that decides, None when none came."""

    case: Case
    state: State
    evidence: Evidence
    reason: str
    record: Record | None


@dataclass(frozen=True)
class CellVerdict:
    """A cell with its cases' verdicts."""

    cell: Cell
    state: State
    evidence: Evidence
    cases: tuple[Verdict, ...]

    @property
    def counts(self) -> dict[State, int]:
        """Cases by state, worst first; they add up to the cell's plan."""
        counted = Counter(verdict.state for verdict in self.cases)
        return {state: counted[state] for state in STATES if counted[state]}


@dataclass(frozen=True)
class Comparison:
    """All cells, and the records that belong to no planned case."""

    plan: Plan
    cells: tuple[CellVerdict, ...]
    unplanned: tuple[Record, ...]

    @property
    def counts(self) -> dict[State, int]:
        """Cases of the whole plan by state, worst first."""
        counted = Counter(verdict.state for cell in self.cells for verdict in cell.cases)
        return {state: counted[state] for state in STATES if counted[state]}

    @property
    def is_red(self) -> bool:
        """Whether some case failed, is missing, or passes although it is expected to fail."""
        return any(state in RED for state in self.counts)


def compare(plan: Plan, records: Iterable[Record]) -> Comparison:
    """Judge every planned case by the records of all machines."""
    by_case: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_case[record.case].append(record)
    verdicts: dict[Cell, list[Verdict]] = defaultdict(list)
    for case in plan.cases:
        verdicts[case.cell].append(judge(case, by_case.pop(case.id, [])))
    cells = tuple(_cell(cell, cases) for cell, cases in verdicts.items())
    return Comparison(plan, cells, tuple(record for rest in by_case.values() for record in rest))


def judge(case: Case, records: Sequence[Record]) -> Verdict:
    """The state of one case. Of several records the one that tried most decides; of equals, the worst."""
    if case.exclusion:
        return Verdict(case, "excluded", "planned", f"{case.exclusion.reason}{_tried(records)}", None)
    if not records:
        return Verdict(case, "missing", "planned", "no result came", None)
    record = max(records, key=lambda r: (_ACTIONS.index(r.action) if r.action in _ACTIONS else 0, _badness(r)))
    if record.outcome == "excluded":
        return Verdict(case, "missing", "planned", "the machine excluded it, and this matrix does not", record)
    if record.outcome in ("unavailable", "missing"):
        return Verdict(case, record.outcome, "planned", record.message, record)
    evidence, doubt = _evidence(record)
    if doubt:
        return Verdict(case, "error", "planned", doubt, record)
    versions = versions_of(record.job)
    expected = [rule for rule in case.expectations if satisfies(rule.versions, versions)]
    if record.outcome == "pass":
        if expected:
            reason = (
                f"it passes, and is expected to fail: {expected[0].reason} Take the expectation out of matrix.yaml."
            )
            return Verdict(case, "fixed", evidence, reason, record)
        if record.attempts:
            return Verdict(case, "flaky", evidence, f"passed after {', '.join(record.attempts)}", record)
        return Verdict(case, evidence if evidence in ("lowered", "compiled") else "pass", evidence, "", record)
    if rule := next((rule for rule in expected if _is_as_expected(rule, record)), None):
        return Verdict(case, "known", evidence, rule.reason, record)
    return Verdict(case, record.outcome, evidence, record.message, record)


def _tried(records: Sequence[Record]) -> str:
    """What an excluded case did where it was tried all the same."""
    tried = [record for record in records if record.outcome in ("pass", "fail", "error")]
    if not tried:
        return ""
    worst = max(tried, key=_badness)
    if worst.outcome == "pass":
        return " Tried all the same, it passes: take the exclusion out if its reason is gone."
    return f" Tried all the same: {worst.outcome}, {' '.join(worst.message.split())[:200]}"


def _evidence(record: Record) -> tuple[Evidence, str]:
    """What a record proves, and why it proves less than it says if that is so."""
    if record.outcome == "error":
        return "planned", ""
    if record.action == "compile":
        kind = record.facts.get("artifact.kind", "")
        if not kind or not record.metrics.get("artifact.bytes"):
            return "planned", "the record says that it compiled, and holds no artifact"
        return ("lowered" if kind.endswith("-source") else "compiled"), ""
    reached: Evidence = "emulated" if record.action == "emulate" else "ran"
    if record.outcome == "fail":
        return reached, ""
    if record.action not in ("run", "emulate") or not record.metrics.get("elements"):
        return "planned", "the record says that it passed, and compared nothing"
    outside = [
        name
        for name, value in record.metrics.items()
        if name.endswith((".max_abs", ".rel_fro")) and not value <= _limit(record.metrics, name)
    ]
    if outside:
        return reached, f"the record says that it passed, and {', '.join(outside)} is over its limit"
    return reached, ""


def _limit(metrics: Mapping[str, float], name: str) -> float:
    output, _, figure = name.rpartition(".")
    return metrics.get(f"{output}.limit_{figure}", -1.0)


def _badness(record: Record) -> int:
    order = ("excluded", "missing", "unavailable", "pass", "error", "fail")
    return order.index(record.outcome)


def _is_as_expected(rule: Expectation, record: Record) -> bool:
    return (
        rule.outcome == record.outcome
        and (rule.stage or "") == record.stage
        and re.search(rule.match, f"{record.message}\n{record.detail}") is not None
    )


def _cell(cell: Cell, cases: Sequence[Verdict]) -> CellVerdict:
    counted = [verdict for verdict in cases if verdict.state != "excluded"]
    if not counted:
        return CellVerdict(cell, "excluded", "planned", tuple(cases))
    state = min((verdict.state for verdict in counted), key=STATES.index)
    evidence = min((verdict.evidence for verdict in counted), key=EVIDENCE.index)
    return CellVerdict(cell, state, evidence, tuple(cases))
