"""What git says of the source: its commit, and the files that have changed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from kernel_matrix.base.errors import UserError


def commit(root: Path) -> str:
    """Return the commit that was tested, with ``+changes`` when the tree differs from it.

    Outside a git checkout it is the value of KERNEL_MATRIX_COMMIT, for a copy of the tree without its history.
    """
    revision = _output(root, "rev-parse", "--short=12", "HEAD")
    if not revision:
        return os.environ.get("KERNEL_MATRIX_COMMIT", "")
    return f"{revision}+changes" if _output(root, "status", "--porcelain") else revision


def changed_files(root: Path, reference: str) -> list[str]:
    """Return the files that differ from where this branch left ``reference``.

    These are the files of commits and of the working tree, and new files that git does not ignore.

    Raises:
        UserError: git does not know the reference, or ``root`` is no checkout.
    """

    def git(*arguments: str) -> str:
        done = _git(root, *arguments)
        if done.returncode:
            reason = (done.stderr.strip() or "no common ancestor").splitlines()[0]
            raise UserError(
                f"--changed-since {reference}: git {arguments[0]}: {reason}. "
                f"Fetch it first: git fetch origin {reference}"
            )
        return done.stdout

    base = git("merge-base", "--end-of-options", reference, "HEAD").strip()
    # Without renames a file that moved is two paths, and both may concern something.
    changed = git("diff", "--name-only", "--no-renames", "-z", base, "--")
    new = git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({path for path in (changed + new).split("\0") if path})


def is_checkout(root: Path) -> bool:
    """Return whether ``root`` lies in a git checkout that has a commit."""
    return bool(_output(root, "rev-parse", "--verify", "--quiet", "HEAD"))


def changed_since(root: Path, revision: str) -> list[str] | None:
    """Return the files that differ between a commit and the working tree, new ones too; None if it is not here.

    Paths are relative to ``root``, and only files below it count.
    """
    is_name = re.fullmatch(r"[0-9a-f]{7,64}", revision)
    if not is_name or not _output(root, "cat-file", "-t", f"{revision}^{{commit}}"):
        return None
    # Without renames a file that moved is two paths, and both may concern something.
    changed = _output(root, "diff", "--relative", "--name-only", "--no-renames", "-z", revision, "--")
    new = _output(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted({path for text in (changed, new) for path in text.split("\0") if path})


def _output(root: Path, *arguments: str) -> str:
    try:
        return _git(root, *arguments).stdout.strip()
    except FileNotFoundError:  # no git on this machine
        return ""


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
