"""ci/kernel-matrix makes .venv again where the lock or the Python that is asked for is another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path):
    """Return a folder with ci/kernel-matrix and a .venv that is this environment, made from the present lock."""
    shutil.copytree(ROOT / "ci", tmp_path / "ci")
    (tmp_path / "src").symlink_to(ROOT / "src")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(ROOT / "ci" / "locks" / "harness.txt", tmp_path / ".venv" / "made-from.txt")
    return tmp_path


def started(clone, **variables):
    """Return what a command prints on its standard error; no environment can be made, as there is no package index."""
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", **variables}
    command = [str(clone / "ci" / "kernel-matrix"), "--help"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stderr


def test_an_environment_of_the_same_lock_and_python_is_taken(clone):
    assert started(clone, PYTHON="") == ""
    assert started(clone, PYTHON=sys.executable) == ""


def test_another_python_makes_it_again(clone):
    other = clone / "other-python"
    other.write_text(
        f'#!/bin/sh\ncase "$*" in *sys.version\\)*) echo 3.12.99 ;; *) exec {sys.executable} "$@" ;; esac\n'
    )
    other.chmod(0o755)
    assert "making .venv" in started(clone, PYTHON=str(other))


def test_another_lock_makes_it_again(clone):
    (clone / ".venv" / "made-from.txt").write_text("another lock\n")
    assert "making .venv" in started(clone, PYTHON="")


def test_a_python_that_is_not_there_is_named(clone):
    assert "no-such-python" in started(clone, PYTHON="no-such-python")
