"""The rows that an event asks for, as they travel in a file to the machines and to ``report``.

Changed files choose the jobs that they concern, each with its reason.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernel_matrix.base.errors import unknown
from kernel_matrix.config.file_readers import concerned
from kernel_matrix.config.model import Matrix, Tier
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.machines.rows import Row
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
    notes: tuple[str, ...] = ()  # a sentence for each thing that was left out on purpose

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
