"""Which state of the source this is."""

from __future__ import annotations

import os
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
