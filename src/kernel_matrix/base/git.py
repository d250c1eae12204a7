"""Which state of the source this is."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path


def commit(root: Path) -> str:
    """The commit that was tested, with ``+changes`` when the tree differs from it.

    Outside a git checkout it is what KERNEL_MATRIX_COMMIT says, for a copy of the tree that left its history behind.
    """

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
        except FileNotFoundError:  # no git on this machine
            return ""
        return done.stdout.strip()

    revision = git("rev-parse", "--short=12", "HEAD")
    if not revision:
        return os.environ.get("KERNEL_MATRIX_COMMIT", "")
    return f"{revision}+changes" if git("status", "--porcelain") else revision


def is_checkout(root: Path) -> bool:
    """Return whether ``root`` lies in a git checkout that has a commit."""
    return _git_lines(root, "rev-parse", "--verify", "HEAD") is not None


def changed_since(root: Path, revision: str) -> list[str] | None:
    """Return the files that differ between a commit and the working tree, new ones too; None if it is not here.

    Paths are relative to ``root``, and only files below it count.
    """
    if not re.fullmatch(r"[0-9a-f]{7,64}", revision) or not _git_lines(
        root, "cat-file", "-t", f"{revision}^{{commit}}"
    ):
        return None
    # Without renames a file that moved is two paths, and both may concern something.
    changed = _git_lines(root, "diff", "--relative", "--name-only", "--no-renames", revision, "--")
    new = _git_lines(root, "ls-files", "--others", "--exclude-standard")
    return sorted({*(changed or ()), *(new or ())})


def _git_lines(root: Path, *arguments: str) -> list[str] | None:
    """Return the lines that git prints, with no character of a path quoted; None if it fails or is not installed."""
    command = ["git", "-C", str(root), "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None
