"""Two sections ``resources`` -> the limits that became looser for some cases from one to the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from kernel_matrix.config.model import has_values
from kernel_matrix.config.plan import Plan
from kernel_matrix.config.rule_state import facts_of
from kernel_matrix.resources.section import entries_of

_Row = tuple[str, str, str, str, tuple[str, ...]]  # the place, the change, the limit before and now, the cases


def looser(before: Sequence[Any], former: Plan, after: Sequence[Any], full: Plan) -> Iterator[_Row]:
    """Yield the limits that are higher for some cases than before, or gone."""
    left = {case.id for case in full.cases}
    old, new = _by_case(before, former), _by_case(after, full)
    changes: dict[tuple[str, str, str, str], list[str]] = {}
    for (case, figure), (place, limit) in old.items():
        later, now = new.get((case, figure), ("", math.inf))
        if now > limit and case in left:
            text = ("the limit is higher", f"{now:g}") if later else ("the limit is gone", "-")
            changes.setdefault((f"{later or place}.{figure}", text[0], f"{limit:g}", text[1]), []).append(case)
    for key, cases in changes.items():
        yield *key, tuple(cases)


def _by_case(given: Sequence[Any], full: Plan) -> dict[tuple[str, str], tuple[str, float]]:
    """Return the place and the limit of each figure of each case."""
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for index, entry in enumerate(entries_of(given)):
        limits: dict[str, float] = {**entry.limits, **({"growth": entry.growth} if entry.growth else {})}
        for case in full.cases:
            if has_values(facts_of(case), entry.where):
                found |= {(case.id, figure): (f"resources[{index}]", limit) for figure, limit in limits.items()}
    return found
