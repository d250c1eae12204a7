"""Jobs -> the cells that tell most within the machine minutes of an event, and a sentence that says what is left out.

Sentinels are taken in every case. Then come the cells of operators whose files were changed, the cells that were red in
the last report, and all others. In each of these groups every lane gets its shortest cell before any gets a second one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from kernel_matrix.base.words import some
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, Job
from kernel_matrix.machines.row_plan import is_sentinel
from kernel_matrix.machines.rows import Seconds
from kernel_matrix.results.history import lane_id

_MOST_NAMES = 5


@dataclass(frozen=True)
class Budget:
    """The minutes of an event, and what is known for spending them.

    ``paths`` are the changed files, ``red`` the cells that were red in the last report, ``setup`` the seconds that a
    machine of a platform takes before its first case; ``idle`` are the ids of cases that no machine is started for.
    """

    event: str
    minutes: float
    seconds: Seconds
    paths: Sequence[str] = ()
    red: Collection[str] = ()
    setup: Mapping[str, float] = field(default_factory=dict)
    idle: Collection[str] = ()


def within(matrix: Matrix, jobs: Sequence[Job], budget: Budget) -> tuple[list[Job], str]:
    """Return the jobs with the cells that the budget takes, and what it left out in a sentence; empty if nothing.

    A cell is taken whole or not at all, so that none is green by a part of its cases.
    """
    cells: dict[str, list[tuple[Job, Case]]] = defaultdict(list)
    for job in jobs:
        for case in job.cases:
            cells[case.cell.id].append((job, case))
    taken = _choose(matrix, cells, budget)
    kept = [replace(job, cases=tuple(case for case in job.cases if case.cell.id in taken)) for job in jobs]
    left = [cell for cell in cells if cell not in taken]
    sentence = _sentence(matrix, budget, {cell: len(cases) for cell, cases in cells.items()}, left)
    return [job for job in kept if job.cases], sentence if left else ""


def _choose(matrix: Matrix, cells: Mapping[str, list[tuple[Job, Case]]], budget: Budget) -> set[str]:
    """Return the cells that are taken. One that does not fit is passed over, and a shorter one may fit."""
    taken: set[str] = set()
    begun: set[tuple[str, str]] = set()
    left = 60 * budget.minutes

    def lane(cell: str) -> tuple[str, str]:
        job, _ = cells[cell][0]
        return job.platform, job.toolchain

    def price(cell: str) -> float:
        working = [case for _, case in cells[cell] if case.id not in budget.idle]
        first = 0.0 if lane(cell) in begun or not working else budget.setup.get(lane(cell)[0], 0.0)
        return first + sum(map(budget.seconds, working))

    sentinels = [cell for cell in cells if is_sentinel(matrix, cell)]
    for cell in (*sentinels, *_in_order(matrix, cells, price, budget)):
        cost = price(cell)
        if cell not in taken and (is_sentinel(matrix, cell) or cost <= left):
            left -= cost
            taken.add(cell)
            if any(case.id not in budget.idle for _, case in cells[cell]):
                begun.add(lane(cell))
    return taken


def _in_order(
    matrix: Matrix, cells: Mapping[str, list[tuple[Job, Case]]], price: Callable[[str], float], budget: Budget
) -> list[str]:
    """Return the cells in the order in which they are taken; equal ones in the order of the plan."""
    changed, of_lane = changed_operators(matrix, budget.paths), Counter[str]()
    ranks: dict[str, tuple[int, int]] = {}
    for cell in sorted(cells, key=price):
        group = 0 if cells[cell][0][1].cell.op in changed else 1 if cell in budget.red else 2
        ranks[cell] = group, of_lane[f"{group} {lane_id(cell)}"]
        of_lane[f"{group} {lane_id(cell)}"] += 1
    return sorted(ranks, key=lambda cell: ranks[cell])


def changed_operators(matrix: Matrix, paths: Iterable[str]) -> set[str]:
    """Return the operators that a changed file, or a folder above it, has the name of."""
    parts = {part.partition(".")[0] for path in paths for part in PurePosixPath(path).parts}
    return parts & set(matrix.ops)


def _sentence(matrix: Matrix, budget: Budget, cells: Mapping[str, int], left: Sequence[str]) -> str:
    """Return what was left out, and how the rest was chosen."""
    order = [f"the operator {name}, which was changed" for name in sorted(changed_operators(matrix, budget.paths))]
    order += ["sentinels", *(["what was red in the last report"] if budget.red else [])]
    return (
        f"Left out by the budget of {budget.minutes:g} machine minutes (ci.events.{budget.event}): {len(left)} of "
        f"{len(cells)} cells, with {sum(cells[cell] for cell in left)} of {sum(cells.values())} cases. They are not on "
        f"this page, and nothing is known of them. Taken first: {'; '.join(order)}. Left out: "
        f"{some(left, _MOST_NAMES)}."
    )
