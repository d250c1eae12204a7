"""Changed files -> the jobs that they concern, each with its reason. Pure, but for asking git what has changed."""

from __future__ import annotations

import fnmatch
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix.base.errors import UserError
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
    """Keep what the changed files concern, and the sentinels, which always run."""
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
    """Whether a cell runs whatever has changed."""
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
    """A lock and what it was resolved from."""
    return lock, str(Path(lock).with_suffix(".in"))


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
