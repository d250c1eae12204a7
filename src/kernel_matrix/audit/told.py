"""Results that persons outside the project have signed: where the page may show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_matrix.audit.files import Chosen
from kernel_matrix.audit.planned import Facts
from kernel_matrix.audit.raw import Raw
from kernel_matrix.audit.states import Judge, Now

_Pair = tuple[str, Raw | None]


class WithTold(Judge):
    """Say which states the page may give to a case that both the project and other persons may have run."""

    def __init__(self, matrix: Mapping[str, Any], cases: Mapping[str, Facts], chosen: Chosen, now: Now) -> None:
        """Take the results of the project and those of other persons apart, so that none counts for the others."""
        super().__init__(matrix, cases, chosen.by_case, now)
        self.others = Judge(matrix, cases, chosen.told, now)

    def shown_as(self, case: str, result: Mapping[str, Any]) -> list[_Pair]:
        """Return the states that a case may have: a run that passed elsewhere comes after all that ran here."""
        own, words = super().shown_as(case, result), self.others.shown_as(case, result)
        ran = [raw for state, raw in words if raw and state in ("pass", "held") and raw.action == "run"]
        told: list[_Pair] = [("told", raw) for raw in ran if not self._has_other_inputs(case, raw)]
        if not told or not any(map(_says_less, own)):
            return own
        is_sure = len(told) == len(words)
        return [*(pair for pair in own if not (is_sure and _says_less(pair)) or pair[0] == "missing"), *told]

    def is_fresh(self, case: str, raw: Raw) -> bool | None:
        """Return whether a result is of the present; None if git has to say."""
        return super().is_fresh(case, raw) if id(raw) in self.fresh else self.others.is_fresh(case, raw)


def _says_less(pair: _Pair) -> bool:
    """Return whether a state says nothing of a run; that no result came may be the word of a row plan."""
    state, raw = pair
    return state in ("unavailable", "lowered", "compiled") or (state == "missing" and raw is None)
