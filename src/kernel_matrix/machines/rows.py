"""Jobs -> Rows: which machine runs what. Pure functions; a row is what one machine is started for."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, Job, platform_toolchain

Seconds = Callable[[Case], float]
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One machine's work: jobs of one platform, the labels of the machine, and how long that takes.

    Without labels it is what no machine can do anything with: planned, and known to be unavailable.
    """

    id: str
    platform: str
    labels: tuple[str, ...]
    own: bool  # a machine of the project's own, not the engine's
    jobs: tuple[Job, ...]
    seconds: float


def rows(matrix: Matrix, jobs: Iterable[Job], seconds: Seconds, *, hosted_only: bool = False) -> tuple[Row, ...]:
    """Place every case on a kind of machine, cut what takes too long, and join what is more than the engine takes.

    With ``hosted_only`` nothing goes to a machine of the project's own: what has no hardware there is compiled.

    Raises:
        UserError: there are more kinds of machines than rows.
    """
    single = [
        Row(
            part.id,
            part.platform,
            labels,
            labels not in ((), (matrix.ci.hosted,)),
            (part,),
            sum(map(seconds, part.cases)),
        )
        for job in jobs
        for labels, home in _place(matrix, job, hosted_only=hosted_only)
        for part in (shards(home, seconds, 60 * matrix.ci.shard_minutes) if labels else [home])
    ]
    own = [row for row in single if row.own]
    hosted = [row for row in single if row.labels and not row.own]
    nowhere = [replace(row, seconds=0.0) for row in single if not row.labels]
    return (*_join(hosted, matrix.ci.most_rows), *_join(own, matrix.ci.most_rows), *nowhere)


def _place(matrix: Matrix, job: Job, *, hosted_only: bool) -> Iterator[tuple[tuple[str, ...], Job]]:
    """The job's cases by the kind of machine that they need."""
    platform = matrix.platforms[job.platform]
    runs = platform_toolchain(matrix, job.platform, job.toolchain).runs
    compiles = platform.device != "cpu" and matrix.toolchains[job.toolchain].ahead_of_time
    homes: dict[tuple[tuple[str, ...], str], list[Case]] = defaultdict(list)
    for case in job.cases:
        target = case.cell.target
        labels: tuple[str, ...]
        if runs and target in platform.machines and platform.runner == [matrix.ci.hosted]:
            labels, name = (matrix.ci.hosted,), ""
        elif runs and target in platform.machines and not hosted_only:
            labels, name = platform.labels(target), target
        elif compiles:
            labels, name = (matrix.ci.hosted,), ""
        else:
            labels, name = (), "no-machine"
        homes[labels, name].append(case)
    for (labels, name), cases in homes.items():
        yield labels, replace(job, cases=tuple(cases), shard=".".join(filter(None, (name, job.shard))))


def estimate(matrix: Matrix, cases: Iterable[Case], measured: Mapping[str, float]) -> Seconds:
    """Seconds of a case: as measured, else as its cell's or its lane's median, else the matrix's estimate."""
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


def shards(job: Job, seconds: Seconds, at_most: float) -> list[Job]:
    """Cut a job so that no part is expected to take longer than ``at_most`` seconds, as far as its cases allow."""
    return cut(job, seconds, min(len(job.cases), math.ceil(sum(map(seconds, job.cases)) / at_most)))


def cut(job: Job, seconds: Seconds, count: int) -> list[Job]:
    """Exactly ``count`` parts of about the same duration, every case in one of them; some may be empty.

    The longest case goes first, always to the part that has least: the same times give the same parts.
    """
    if count <= 1:
        return [job]
    bins = _bins(job.cases, seconds, count)
    order = {case.id: index for index, case in enumerate(job.cases)}
    return [
        replace(
            job,
            cases=tuple(sorted(part, key=lambda case: order[case.id])),
            shard=".".join(filter(None, (job.shard, f"{number}of{count}"))),
        )
        for number, part in enumerate(bins, 1)
    ]


def _join(single: Sequence[Row], most: int) -> Iterator[Row]:
    """As they are if there are few enough; else several jobs a row, only with others of their platform and labels."""
    if len(single) <= most:
        yield from single
        return
    kinds: dict[tuple[str, tuple[str, ...]], list[Row]] = defaultdict(list)
    for row in single:
        kinds[row.platform, row.labels].append(row)
    if len(kinds) > most:
        raise UserError(
            f"matrix.yaml: platforms: {len(kinds)} kinds of machines are more than the {most} rows of ci.most_rows. "
            "Give fewer targets a machine of their own, or raise it if the engine takes more."
        )
    total = sum(row.seconds for row in single) or 1.0
    spare = most - len(kinds)
    for (platform, labels), some in kinds.items():
        count = min(len(some), 1 + math.floor(spare * sum(row.seconds for row in some) / total))
        for number, part in enumerate(_bins(some, lambda row: row.seconds, count), 1):
            name = ".".join((platform, labels[-1], f"{number}of{count}"))
            jobs = tuple(job for row in part for job in row.jobs)
            yield Row(name, platform, labels, part[0].own, jobs, sum(row.seconds for row in part))


def _bins(items: Sequence[T], weight: Callable[[T], float], count: int) -> list[list[T]]:
    """Longest first, each into the bin that has least; equals keep their order."""
    bins: list[list[T]] = [[] for _ in range(count)]
    heap = [(0.0, 0, index) for index in range(count)]
    for item in sorted(items, key=weight, reverse=True):
        load, held, index = heapq.heappop(heap)
        bins[index].append(item)
        heapq.heappush(heap, (load + weight(item), held + 1, index))
    return bins
