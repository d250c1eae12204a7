"""Changed files -> the jobs that they concern, each with its reason. Pure functions."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernel_matrix.config.concern import concerned
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job


@dataclass(frozen=True)
class Choice:
    """The jobs that are left, and why each was taken."""

    jobs: tuple[Job, ...]
    reasons: dict[str, str]


def choose(matrix: Matrix, jobs: Sequence[Job], paths: Sequence[str]) -> Choice:
    """Keep the jobs that the changed files concern, and the sentinels, which always run."""
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
    return Choice(tuple(kept), reasons)


def is_sentinel(matrix: Matrix, cell: str) -> bool:
    """Return whether a cell is a sentinel: it runs whatever has changed."""
    return any(fnmatch.fnmatchcase(cell, pattern) for pattern in matrix.ci.sentinels)
