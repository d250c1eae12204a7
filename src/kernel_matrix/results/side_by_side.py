"""The results of two cells, A and B -> what is the same and what differs, case by case. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import Case, Plan
from kernel_matrix.results import ulp
from kernel_matrix.results.agreement import INPUTS
from kernel_matrix.results.repeat import cases_named
from kernel_matrix.results.ulp import Distance
from kernel_matrix.store.record import Record


@dataclass(frozen=True)
class OutputPair:
    """One output on both sides (another variant has another name), and their distance or why there is none."""

    one: str
    other: str
    distance: Distance | None
    reason: str = ""


@dataclass(frozen=True)
class CasePair:
    """One case on both sides. A record is None where no result came; ``reason`` says why nothing is compared."""

    name: str
    one: Record | None
    other: Record | None
    outputs: tuple[OutputPair, ...] = ()
    reason: str = ""

    @property
    def identical(self) -> bool:
        """True if all outputs of both sides were compared and have the same bits."""
        return bool(self.outputs) and all(pair.distance and pair.distance.identical for pair in self.outputs)


def side_by_side(planned: Plan, records: Mapping[str, Record], one: str, other: str) -> list[CasePair]:
    """Return the cases that two cells share, or the two cases that the ids name; ``records`` are by case.

    Raises:
        UserError: the plan has no such cell or case, they are of different operators or share no case, or no result of
            one of them is here.
    """
    names = [{case.name: case for case in cases_named(planned, identity)} for identity in (one, other)]
    operators = [next(iter(cases.values())).cell for cases in names]
    first, second = ((cell.op, cell.direction) for cell in operators)
    if first != second:
        raise UserError(f"{one} and {other}: they are of different operators, so nothing can be compared.")
    shared = [name for name in names[0] if name in names[1]]
    if not shared:
        raise UserError(f"{one} and {other}: they have no case in common.")
    for identity, cases in zip((one, other), names, strict=True):
        if not any(cases[name].id in records for name in shared):
            raise UserError(f"{identity}: no result of it is here. Name the folders that hold the results of both.")
    pairs = [_pair(names[0][name], names[1][name], records) for name in shared]
    return [pair for pair in pairs if pair.one or pair.other]


def _pair(one: Case, other: Case, records: Mapping[str, Record]) -> CasePair:
    first, second = records.get(one.id), records.get(other.id)
    if first is None or second is None:
        return CasePair(one.name, first, second, reason="only one side has a result")
    if reason := _incomparable(first, second):
        return CasePair(one.name, first, second, reason=reason)
    key = f"{one.cell.op}.{one.cell.direction}/{one.name}"
    return CasePair(one.name, first, second, tuple(_outputs(key, first, second)))


def _incomparable(one: Record, other: Record) -> str:
    """Return why two records cannot be compared; empty if they can."""
    without = [side for side, record in (("A", one), ("B", other)) if not record.samples]
    if without:
        return f"no samples of {' and '.join(without)}"
    first, second = (record.facts.get(INPUTS, "") for record in (one, other))
    if not first or first != second:
        return f"the inputs differ (A: {first[:16] or 'not known'}, B: {second[:16] or 'not known'})"
    return ""


def _outputs(key: str, one: Record, other: Record) -> list[OutputPair]:
    """Return the outputs of both sides. A variant that one side lacks stands next to the output of its chosen one."""
    names = dict.fromkeys(_partners(one, other))
    names.update(dict.fromkeys((mine, theirs) for theirs, mine in _partners(other, one)))
    return [_output(key, one, other, *pair) for pair in names]


def _partners(one: Record, other: Record) -> list[tuple[str, str]]:
    """Return each output of one side with the one of the other side that it is compared with."""
    return [(name, name if name in other.samples else name.partition("@")[0]) for name in one.samples]


def _output(key: str, one: Record, other: Record, mine: str, theirs: str) -> OutputPair:
    if mine not in one.samples or theirs not in other.samples:
        lacking = other.case if mine in one.samples else one.case
        return OutputPair(mine, theirs, None, f"{lacking} has no such output")
    try:
        return OutputPair(mine, theirs, ulp.measure(key, mine, one.samples[mine], other.samples[theirs]))
    except ValueError as error:
        return OutputPair(mine, theirs, None, str(error))
