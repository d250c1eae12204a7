"""Checks that need the plan: the same case twice, choices of no case, and patterns that hold for nothing."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator

from kernel_matrix.config.cases import expand
from kernel_matrix.config.document import Fault
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Plan, ops_of


def cases(matrix: Matrix, _: Plan) -> Iterator[Fault]:
    """Yield the cases that two groups of an operator name."""
    for name, op in matrix.ops.items():
        for direction in op.directions:
            counts = Counter(case for case, _ in expand(op, "full", direction))
            for case in sorted(case for case, count in counts.items() if count > 1):
                yield ("ops", name, "cases"), f"the case '{case}' is here twice. Take it out of one group."


def chosen_cases(matrix: Matrix, full: Plan) -> Iterator[Fault]:
    """Yield the choices of cases that leave a cell without any: it would be on no page, and nobody would miss it."""
    if not any(entry.cases for platform in matrix.platforms.values() for entry in platform.entries):
        return
    cells = {id(case.cell): case.cell for case in full.cases}.values()
    planned_ops = {(cell.platform, cell.toolchain, cell.target, cell.op, cell.direction) for cell in cells}
    for name, platform in matrix.platforms.items():
        for index, entry in enumerate(platform.entries):
            target = (entry.targets or platform.targets)[0]  # the same for each of them
            for op, direction in ops_of(matrix, entry) if entry.cases else ():
                if (name, entry.toolchain, target, op, direction) not in planned_ops:
                    text = f"no case of {op}.{direction} has these values. Name others, or leave it out by 'ops'."
                    yield ("platforms", name, "toolchains", index, "cases"), text


def sentinels(matrix: Matrix, full: Plan) -> Iterator[Fault]:
    """Yield the patterns of sentinels that match no cell."""
    cells = {case.cell.id for case in full.cases} if matrix.ci.sentinels else set()
    for index, pattern in enumerate(matrix.ci.sentinels):
        if not fnmatch.filter(cells, pattern):
            yield ("ci", "sentinels", index), f"no cell is called '{pattern}'. Correct it; '*' stands for anything."
