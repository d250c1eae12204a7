"""Plan -> RowPlan: the rows that an event asks for. As a file it travels to the machines and to ``report``.

Changed files choose the jobs that they concern, each with its reason.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernel_matrix.base.errors import unknown
from kernel_matrix.config.concern import concerned, lock_files
from kernel_matrix.config.model import Event, Matrix, Tier
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.machines.rows import Row, estimate, rows
from kernel_matrix.store.validation import Asked
from kernel_matrix.vendors.registry import vendor_named


@dataclass(frozen=True)
class RowPlan:
    """The plan of one event: its rows, why each job is in it, and how many cases were left out."""

    event: str
    tier: Tier
    rows: tuple[Row, ...]
    excluded: bool = False  # whether the excluded cases are tried too
    left_out: int = 0
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs of all rows."""
        return tuple(job for row in self.rows for job in row.jobs)

    def row_of(self) -> dict[str, Row]:
        """Return the row of each case, by the case's id."""
        return {case.id: row for row in self.rows for job in row.jobs for case in job.cases}

    def row(self, name: str) -> Row:
        """Return the row of that name.

        Raises:
            UserError: there is none.
        """
        for row in self.rows:
            if row.id == name:
                return row
        raise unknown("--row", "row in the plan", name, [row.id for row in self.rows])

    def only_asked(self, planned: Plan) -> Plan:
        """Return the plan with only the jobs of the rows."""
        return replace(planned, jobs=self.jobs)


def make_row_plan(
    matrix: Matrix,
    planned: Plan,
    measured: Mapping[str, float],
    *,
    event: str = "",
    paths: Sequence[str] | None = None,
    hosted_only: bool = False,
) -> RowPlan:
    """Return the rows for what the event asks for and the changed files concern. A pure function.

    ``measured`` are seconds by case; ``paths`` are the changed files, None for all files.
    """
    asked = matrix.ci.events.get(event, Event())
    changed = set(paths or ())
    jobs = [
        job
        for job in planned.jobs
        if asked.toolchains is None
        or job.toolchain in asked.toolchains
        or changed & {*lock_files(matrix.lock_of(job.platform, job.toolchain))}
    ]
    reasons: Mapping[str, str] = {}
    if paths is not None:
        jobs, reasons = choose(matrix, jobs, paths)
    seconds = estimate(matrix, planned.cases, measured)
    placed = rows(matrix, jobs, seconds, hosted_only=hosted_only)
    left_out = len(planned.cases) - sum(len(job.cases) for job in jobs)
    return RowPlan(event, planned.tier, placed, asked.excluded, left_out, reasons)


def asked_of(matrix: Matrix, row_plan: RowPlan) -> dict[str, Asked]:
    """Return what each job of the rows was asked for, by the job's id. A machine of our own may have any hardware."""
    return {
        job.id: Asked(
            row.id,
            {case.id for case in job.cases},
            may_run=row.own or vendor_named(matrix.platforms[row.platform].device).hosted,
        )
        for row in row_plan.rows
        for job in row.jobs
    }


def describe(row_plan: RowPlan, row: Row) -> str:
    """Return a row as one line for people: its cases, its duration, its machine, and why it is in the plan."""
    cases = sum(len(job.cases) for job in row.jobs)
    reasons = dict.fromkeys(reason for job in row.jobs if (reason := _reason(row_plan, job)))
    where = ", ".join(row.labels) or "no machine"
    why = f" ({'; '.join(reasons)})" if reasons else ""
    return f"{row.id}: {cases} cases, {row.seconds:.0f} s, on [{where}]{why}"


def _reason(row_plan: RowPlan, job: Job) -> str:
    """Return why a job is in the plan. A reason has the job's id from before the job was placed and cut."""
    keys = (key for key in row_plan.reasons if job.id == key or job.id.startswith(f"{key}."))
    return row_plan.reasons.get(next(keys, ""), "")


def choose(matrix: Matrix, jobs: Sequence[Job], paths: Sequence[str]) -> tuple[list[Job], dict[str, str]]:
    """Return the jobs that the changed files concern, and the sentinels, which always run; and why each was taken."""
    files = concerned(matrix, paths)
    kept: list[Job] = []
    reasons: dict[str, str] = {}
    for job in jobs:
        if path := files.file_for(job.platform, job.toolchain):
            kept.append(job)
            reasons[job.id] = f"{path} was changed"
            continue
        cases = tuple(case for case in job.cases if is_sentinel(matrix, case.cell.id))
        if cases:
            kept.append(replace(job, cases=cases))
            reasons[job.id] = "a sentinel, which runs whatever has changed"
    return kept, reasons


def is_sentinel(matrix: Matrix, cell: str) -> bool:
    """Return whether a cell is a sentinel: it runs whatever has changed."""
    return any(fnmatch.fnmatchcase(cell, pattern) for pattern in matrix.ci.sentinels)
