"""Jobs -> Rows: divide the cases between machines. Pure functions. One machine is started for one row."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, Job, targets_with_machine
from kernel_matrix.machines.rows import Row, Seconds, bins, cut
from kernel_matrix.vendors.registry import vendor_named


@dataclass(frozen=True)
class Machines:
    """The machines that rows may go to.

    ``hosted`` is the label of those without a GPU. ``of_target`` gives the labels of the machines that have a
    platform's target; none where no machine has it. ``most_rows`` are the most rows of each of the two.
    """

    hosted: str
    of_target: Callable[[str, str], tuple[str, ...]]
    most_rows: int


def of_service(
    matrix: Matrix, kinds: Mapping[tuple[str, str], str] | None = None, *, hosted_only: bool = False
) -> Machines:
    """Return the machines of a CI service: its own, and the project's that matrix.yaml names.

    With ``hosted_only`` nothing goes to the project's own: what has no hardware on a hosted machine is compiled.
    ``kinds`` has the kind of machine of each platform's target that has several.
    """

    def labels(name: str, target: str) -> tuple[str, ...]:
        platform = matrix.platforms[name]
        if target not in targets_with_machine(platform):
            return ()
        if platform.runner == [matrix.ci.hosted]:
            return (matrix.ci.hosted,)
        return () if hosted_only else platform.labels(target, (kinds or {}).get((name, target), ""))

    return Machines(matrix.ci.hosted, labels, matrix.ci.most_rows)


def rows(matrix: Matrix, jobs: Iterable[Job], seconds: Seconds, machines: Machines | None = None) -> tuple[Row, ...]:
    """Place every case on a kind of machine, by default of a CI service, and cut jobs that take too long.

    If there are more rows than the machines take, join them.

    Raises:
        UserError: there are more kinds of machines than rows.
    """
    machines = machines or of_service(matrix)
    single = [
        Row(
            part.id,
            part.platform,
            labels,
            labels not in ((), (machines.hosted,)),
            (part,),
            sum(map(seconds, part.cases)),
        )
        for job in jobs
        for labels, placed in place(matrix, job, machines)
        for part in (shards(placed, seconds, 60 * matrix.ci.shard_minutes) if labels else [placed])
    ]
    own = [row for row in single if row.own]
    hosted = [row for row in single if row.labels and not row.own]
    nowhere = [replace(row, seconds=0.0) for row in single if not row.labels]
    return (*_join(hosted, machines.most_rows), *_join(own, machines.most_rows), *nowhere)


def place(matrix: Matrix, job: Job, machines: Machines) -> Iterator[tuple[tuple[str, ...], Job]]:
    """Yield the labels of each kind of machine that the job's cases need, with a job of those cases."""
    platform = matrix.platforms[job.platform]
    entry = platform.by_toolchain[job.toolchain]
    vendor = vendor_named(platform.device)
    compiles = vendor.compiles_without_device and matrix.toolchains[job.toolchain].ahead_of_time
    stands_in = entry.emulator is not None if vendor.gpu else entry.runs  # as ``Platform.device_on`` has it
    parts: dict[tuple[tuple[str, ...], str], list[Case]] = defaultdict(list)
    for case in job.cases:
        target, hosted = case.cell.target, (machines.hosted,)
        labels = machines.of_target(job.platform, target) if entry.runs else ()
        if not labels and (compiles or (stands_in and target in vendor.stood_in_for)):
            labels = hosted
        name = "" if labels == hosted else target if labels else "no-machine"
        parts[labels, name].append(case)
    for (labels, name), cases in parts.items():
        yield labels, replace(job, cases=tuple(cases), shard=".".join(filter(None, (name, job.shard))))


def shards(job: Job, seconds: Seconds, at_most: float) -> list[Job]:
    """Cut a job into parts of at most ``at_most`` expected seconds. A case that takes longer is a part by itself."""
    return cut(job, seconds, min(len(job.cases), math.ceil(sum(map(seconds, job.cases)) / at_most)))


def _join(single: Sequence[Row], most: int) -> Iterator[Row]:
    """Return the rows as they are if they are few enough; else join rows of the same platform and labels."""
    if len(single) <= most:
        yield from single
        return
    kinds: dict[tuple[str, tuple[str, ...]], list[Row]] = defaultdict(list)
    for row in single:
        kinds[row.platform, row.labels].append(row)
    if len(kinds) > most:
        raise UserError(
            f"matrix.yaml: platforms: {len(kinds)} kinds of machines are more than the {most} rows of ci.most_rows. "
            "Give fewer targets a machine of their own, or raise it if the CI service takes more."
        )
    total = sum(row.seconds for row in single) or 1.0
    spare = most - len(kinds)
    for (platform, labels), alike in kinds.items():
        count = min(len(alike), 1 + math.floor(spare * sum(row.seconds for row in alike) / total))
        for number, part in enumerate(bins(alike, lambda row: row.seconds, count), 1):
            name = ".".join((platform, labels[-1], f"{number}of{count}"))
            jobs = tuple(job for row in part for job in row.jobs)
            yield Row(name, platform, labels, part[0].own, jobs, sum(row.seconds for row in part))
