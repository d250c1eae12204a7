"""Changed files -> the jobs that they concern, each with its reason. Pure functions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job

# What no job reads. Everything else that no rule below knows concerns everything.
_ONLY_READ_BY_PEOPLE = ("*.md", "docs/*", "LICENSE", ".gitignore")


@dataclass(frozen=True)
class Choice:
    """The jobs that are left, and why each was taken."""

    jobs: tuple[Job, ...]
    reasons: dict[str, str]


def choose(matrix: Matrix, jobs: Sequence[Job], paths: Sequence[str]) -> Choice:
    """Keep the jobs that the changed files concern, and the sentinels, which always run."""
    concerned = {path: _toolchains(matrix, path) for path in sorted(set(paths))}
    whole = next((path for path, names in concerned.items() if names is None), None)
    kept: list[Job] = []
    reasons: dict[str, str] = {}
    for job in jobs:
        path = next((path for path, names in concerned.items() if names and _concerns(names, job)), whole)
        if path is not None:
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


def _concerns(names: frozenset[tuple[str, str]], job: Job) -> bool:
    return ("toolchain", job.toolchain) in names or ("platform", job.platform) in names


def _toolchains(matrix: Matrix, path: str) -> frozenset[tuple[str, str]] | None:
    """The toolchains and platforms that a file concerns; None: all of them."""
    if any(fnmatch.fnmatchcase(path, pattern) for pattern in _ONLY_READ_BY_PEOPLE):
        return frozenset()
    folder = matrix.package.backends
    if folder and (found := re.fullmatch(rf"{re.escape(folder.rstrip('/'))}/([^/]+)/.+", path)):
        backend = found.group(1)
        names = [name for name, toolchain in matrix.toolchains.items() if toolchain.backend == backend]
        # A folder that belongs to no toolchain is shared by all, as far as anybody can tell from its name.
        return frozenset(("toolchain", name) for name in names) or None
    locked = [name for name, toolchain in matrix.toolchains.items() if path in lock_files(toolchain.lock)]
    if locked:
        return frozenset(("toolchain", name) for name in locked)
    for name, platform in matrix.platforms.items():
        if platform.container and path.startswith(f"{Path(platform.container).parent}/"):
            return frozenset({("platform", name)})
    return None


def lock_files(lock: str) -> tuple[str, str]:
    """Return the paths of a lock file and of the file that it was resolved from."""
    return lock, str(Path(lock).with_suffix(".in"))
