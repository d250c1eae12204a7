"""The doubles as a git repository, whose files a test may change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def sh(root: Path, *command: str) -> str:
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(doubles, monkeypatch) -> Path:
    """Make the doubles a git repository with one commit."""
    monkeypatch.delenv("KERNEL_MATRIX_COMMIT", raising=False)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a@example.org")
    sh(doubles.root, "git", "init", "-q")
    sh(doubles.root, "git", "add", "-A")
    sh(doubles.root, "git", "commit", "-qm", "one")
    return doubles.root
