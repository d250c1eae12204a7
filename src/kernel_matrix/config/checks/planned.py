"""Checks that need the plan: the same case twice, choices of no case, and patterns that hold for nothing."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator

from kernel_matrix.config.cases import expand
from kernel_matrix.config.document import Fault
from kernel_matrix.config.model import Direction, Matrix, PlatformToolchain, Tier
from kernel_matrix.config.plan import Plan, chooses, ops_of

_TIERS: tuple[Tier, Tier] = ("full", "quick")


def cases(matrix: Matrix, _: Plan) -> Iterator[Fault]:
    """Yield the cases that two groups of an operator name."""
    for name, op in matrix.ops.items():
        for direction in op.directions:
            counts = Counter(case for case, _ in expand(op, "full", direction))
            for case in sorted(case for case, count in counts.items() if count > 1):
                yield ("ops", name, "cases"), f"the case '{case}' is here twice. Take it out of one group."


def chosen_cases(matrix: Matrix, _: Plan) -> Iterator[Fault]:
    """Yield the choices of cases that leave a cell without any: it would be on no page, and nobody would miss it."""
    for name, platform in matrix.platforms.items():
        for index, entry in enumerate(platform.entries):
            for op, direction in ops_of(matrix, entry) if entry.cases or entry.quick else ():
                if key := _empty_choice(matrix, entry, op, direction):
                    text = f"no case of {op}.{direction} has these values. Name others, or leave it out by 'ops'."
                    yield ("platforms", name, "toolchains", index, key), text


def _empty_choice(matrix: Matrix, entry: PlatformToolchain, op: str, direction: Direction) -> str:
    """Return the choice of an entry that leaves an operator without a case; empty if none does."""
    full, quick = ([axes for _, axes in expand(matrix.ops[op], tier, direction)] for tier in _TIERS)
    if not any(chooses(entry, "full", axes) for axes in full):
        return "cases"
    left = [axes for axes in quick if chooses(entry, "full", axes)]
    return "quick" if left and not any(chooses(entry, "quick", axes) for axes in left) else ""


def sentinels(matrix: Matrix, full: Plan) -> Iterator[Fault]:
    """Yield the patterns of sentinels that match no cell."""
    cells = {case.cell.id for case in full.cases} if matrix.ci.sentinels else set()
    for index, pattern in enumerate(matrix.ci.sentinels):
        if not fnmatch.filter(cells, pattern):
            yield ("ci", "sentinels", index), f"no cell is called '{pattern}'. Correct it; '*' stands for anything."
