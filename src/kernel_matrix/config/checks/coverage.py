"""Checks that need the plan: the same case twice, choices of no case, and patterns that hold for nothing."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kernel_matrix.config.document import Fault
from kernel_matrix.config.model import Direction, Matrix, PlatformToolchain, Scalar, Tier, has_values
from kernel_matrix.config.plan import Plan, chooses, expand, ops_of
from kernel_matrix.config.rule_state import facts_of

_TIERS: tuple[Tier, Tier] = ("full", "quick")
_CasesOfTiers = Sequence[Sequence[Mapping[str, Scalar]]]  # the axes of each case, by tier as in _TIERS


def cases(matrix: Matrix, _: Plan) -> Iterator[Fault]:
    """Yield the cases that two groups of an operator name."""
    for name, op in matrix.ops.items():
        for direction in op.directions:
            counts = Counter(case for case, _ in expand(op, "full", direction))
            for case in sorted(case for case, count in counts.items() if count > 1):
                yield ("ops", name, "cases"), f"the case '{case}' is here twice. Take it out of one group."


def chosen_cases(matrix: Matrix, _: Plan) -> Iterator[Fault]:
    """Yield the choices of cases that leave a cell without any: it would be on no page, and nobody would miss it."""
    cases_of: dict[tuple[str, Direction], _CasesOfTiers] = {}  # many entries choose among the same
    for name, platform in matrix.platforms.items():
        for index, entry in enumerate(platform.entries):
            for op, direction in ops_of(matrix, entry) if entry.cases or entry.quick else ():
                if (op, direction) not in cases_of:
                    expanded = [expand(matrix.ops[op], tier, direction) for tier in _TIERS]
                    cases_of[op, direction] = [[axes for _, axes in of_tier] for of_tier in expanded]
                if key := _empty_choice(entry, *cases_of[op, direction]):
                    text = f"no case of {op}.{direction} has these values. Name others, or leave it out by 'ops'."
                    yield ("platforms", name, "toolchains", index, key), text


def _empty_choice(
    entry: PlatformToolchain, full: Sequence[Mapping[str, Scalar]], quick: Sequence[Mapping[str, Scalar]]
) -> str:
    """Return the choice of an entry that leaves none of an operator's cases in a tier; empty if none does."""
    if not any(chooses(entry.cases, axes) for axes in full):
        return "cases"
    left = [axes for axes in quick if chooses(entry.cases, axes)]
    has_one = any(chooses(choice, axes) for choice in entry.quick_choices for axes in left)
    return "quick" if left and not has_one else ""


def sentinels(matrix: Matrix, full: Plan) -> Iterator[Fault]:
    """Yield the patterns of sentinels that match no cell."""
    cells = {case.cell.id for case in full.cases} if matrix.ci.sentinels else set()
    for index, pattern in enumerate(matrix.ci.sentinels):
        if not fnmatch.filter(cells, pattern):
            yield ("ci", "sentinels", index), f"no cell is called '{pattern}'. Correct it; '*' stands for anything."


def resources(matrix: Matrix, full: Plan) -> Iterator[Fault]:
    """Yield the resource limits that hold for no case."""
    for index, entry in enumerate(matrix.resources):
        if not any(has_values(facts_of(case), entry.where) for case in full.cases):
            yield ("resources", index, "where"), "no case has these values together. Correct them, or take it out."
