"""Changed files -> the jobs that they concern, each with its reason. Pure, but for asking git what has changed."""

from __future__ import annotations

import fnmatch
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.concern import concerned
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job


@dataclass(frozen=True)
class Choice:
    """The jobs that are left, and why each was taken."""

    jobs: tuple[Job, ...]
    reasons: dict[str, str]


def choose(matrix: Matrix, jobs: Sequence[Job], paths: Sequence[str]) -> Choice:
    """Keep what the changed files concern, and the sentinels, which always run."""
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
    """Whether a cell runs whatever has changed."""
    return any(fnmatch.fnmatchcase(cell, pattern) for pattern in matrix.ci.sentinels)


def changed_files(root: Path, reference: str) -> list[str]:
    """What differs from where this branch left ``reference``: commits, the working tree, and files not added yet.

    Raises:
        UserError: git does not know the reference, or this is no checkout.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip() or "no common ancestor").splitlines()[0]
            raise UserError(
                f"--changed-since {reference}: git {arguments[0]}: {said}. Fetch it first: git fetch origin {reference}"
            )
        return done.stdout

    base = git("merge-base", "--end-of-options", reference, "HEAD").strip()
    # Without renames a file that moved is two paths, and both may concern something.
    changed = git("diff", "--name-only", "--no-renames", "-z", base, "--")
    new = git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({path for path in (changed + new).split("\0") if path})
