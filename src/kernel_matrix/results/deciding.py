"""Choose the record that decides a case, and refuse records that had other inputs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernel_matrix.config.plan import Case
from kernel_matrix.store.record import Record

_ACTIONS = ("", "compile", "emulate", "run")
_OUTCOMES = ("excluded", "missing", "unavailable", "pass", "error", "fail")  # from the best to the worst
_FACT = "inputs.sha256"

Inputs = tuple[str, str, str]  # op, direction and name of a case: all cells of these must have the same inputs


@dataclass(frozen=True)
class Dated:
    """A record, and why it is stale (empty if it is not)."""

    record: Record
    stale: str = ""


@dataclass(frozen=True)
class CommonInputs:
    """The digest of the inputs that most records have, by the inputs' case; empty where two are equally frequent."""

    digests: Mapping[Inputs, str] = field(default_factory=dict)

    def refuse(self, case: Case, record: Record) -> str:
        """Return why a record is refused; empty if it had the inputs that most records have, or does not say which."""
        digest, common = record.facts.get(_FACT, ""), self.digests.get(inputs_key(case))
        if not digest or common is None or digest == common:
            return ""
        if not common:
            return f"refused: other inputs ({digest[:16]}) than as many other results of the same case have"
        return f"refused: other inputs ({digest[:16]}) than most results of the same case have ({common[:16]})"


def common_inputs(cases: Iterable[Case], records: Mapping[str, Sequence[Dated]]) -> CommonInputs:
    """Count the inputs of all cells. Where some of the records are not stale, only these are counted."""
    counts: dict[Inputs, Counter[tuple[bool, str]]] = defaultdict(Counter)
    for case in cases:
        for dated in records.get(case.id, ()):
            if digest := dated.record.facts.get(_FACT, ""):
                counts[inputs_key(case)][bool(dated.stale), digest] += 1
    return CommonInputs({inputs: _most_frequent(counted) for inputs, counted in counts.items()})


def deciding(records: Sequence[Dated]) -> Dated:
    """Return the record that tried most, and of equals the worst.

    A stale record decides only if it tried more than every record of the present, and the deciding one of these did
    not go wrong.
    """
    current = [dated for dated in records if not dated.stale]
    stale = [dated for dated in records if dated.stale]
    if not current or not stale:
        return max(records, key=_weight)
    now, before = max(current, key=_weight), max(stale, key=_weight)
    wrong = now.record.outcome in ("fail", "error")
    return now if wrong or _action(now.record) >= _action(before.record) else before


def badness(record: Record) -> int:
    """Return the place of a record's outcome among all outcomes; the worst is the highest."""
    return _OUTCOMES.index(record.outcome)


def _weight(dated: Dated) -> tuple[int, int]:
    return _action(dated.record), badness(dated.record)


def _action(record: Record) -> int:
    return _ACTIONS.index(record.action) if record.action in _ACTIONS else 0


def inputs_key(case: Case) -> Inputs:
    """Return what determines the inputs of a case."""
    return case.cell.op, case.cell.direction, case.name


def _most_frequent(counted: Counter[tuple[bool, str]]) -> str:
    current = Counter({digest: n for (stale, digest), n in counted.items() if not stale})
    votes = current or Counter({digest: n for (_, digest), n in counted.items()})
    ranked = votes.most_common(2)
    return "" if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]
