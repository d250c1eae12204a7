"""The work of one machine, how long cases take, and jobs cut into parts of about the same time. Pure functions."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, Job
from kernel_matrix.config.selection import Shard

Seconds = Callable[[Case], float]
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One machine's work: jobs of one platform, the labels of the machine, and the expected duration.

    A row without labels holds what no machine can run or compile: it is planned, and known to be unavailable.
    """

    id: str
    platform: str
    labels: tuple[str, ...]
    own: bool  # a machine of the project's own, not one of the CI service
    jobs: tuple[Job, ...]
    seconds: float


def estimate(matrix: Matrix, cases: Iterable[Case], measured: Mapping[str, float]) -> Seconds:
    """Return a function that gives the seconds of a case.

    They are as measured, else the median of its cell, its lane, or its toolchain on the platform; else the estimate of
    matrix.yaml.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        if case.id in measured:
            for group in _groups(case):
                groups[group].append(measured[case.id])
    medians = {group: median(values) for group, values in groups.items()}

    def seconds(case: Case) -> float:
        if case.exclusion:
            return 0.0
        if case.id in measured:
            return measured[case.id]
        return next((medians[group] for group in _groups(case) if group in medians), matrix.ci.case_seconds)

    return seconds


def _groups(case: Case) -> tuple[str, ...]:
    cell = case.cell
    return (cell.id, f"{cell.platform}/{cell.target}/{cell.toolchain}", f"{cell.platform}/{cell.toolchain}")


def cut(job: Job, seconds: Seconds, count: int) -> list[Job]:
    """Cut a job into exactly ``count`` parts of about the same duration. Every case is in one part; some may be empty.

    The longest case is placed first, always into the part with the least work. The same times give the same parts.
    """
    if count <= 1:
        return [job]
    parts = bins(job.cases, seconds, count)
    order = {case.id: index for index, case in enumerate(job.cases)}
    return [
        replace(
            job,
            cases=tuple(sorted(part, key=lambda case: order[case.id])),
            shard=".".join(filter(None, (job.shard, f"{number}of{count}"))),
        )
        for number, part in enumerate(parts, 1)
    ]


def only_shard(jobs: Iterable[Job], seconds: Seconds, shard: Shard) -> tuple[Job, ...]:
    """Return the part of each job that the shard names, without the jobs whose part is empty."""
    parts = (cut(job, seconds, shard.count)[shard.number - 1] for job in jobs)
    return tuple(part for part in parts if part.cases)


def bins(items: Sequence[T], weight: Callable[[T], float], count: int) -> list[list[T]]:
    """Divide items into bins of about the same weight: the heaviest first, each into the bin with the least weight.

    Equal items keep their order, and of equal bins the one with fewer items comes first.
    """
    divided: list[list[T]] = [[] for _ in range(count)]
    heap = [(0.0, 0, index) for index in range(count)]
    for item in sorted(items, key=weight, reverse=True):
        load, size, index = heapq.heappop(heap)
        divided[index].append(item)
        heapq.heappush(heap, (load + weight(item), size + 1, index))
    return divided
