"""The programs that a test starts are those of its environment, and not the machine's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_matrix.config.file_readers import readers_of
from kernel_matrix.config.reads import Checkout
from kernel_matrix.run.activated import Activated, active
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.own_time import wait_for_end

_ASKED = """
import os, shutil, subprocess
for program in ("python", "python3"):
    words = [program, "-c", "import sys; print(sys.prefix)"]
    print(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())
print(shutil.which("of_the_environment"))
print(os.environ["VIRTUAL_ENV"])
"""


@pytest.fixture
def environment(tmp_path):
    """Return an environment with a program of its own."""
    folder = tmp_path / "an own é"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    program = folder / "bin" / "of_the_environment"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return folder


def said(interpreter, tmp_path, variables):
    log = tmp_path / "log.txt"
    child = interpreter.start(["-c", _ASKED], variables, tmp_path, log)
    assert wait_for_end(child, 60) == 0
    return log.read_text().splitlines()


@pytest.mark.parametrize("variables", [{}, {"PATH": "/usr/bin:/bin"}], ids=["the shell's", "of matrix.yaml"])
def test_the_programs_of_an_environment_come_first(environment, tmp_path, variables):
    python = environment / "bin" / "python"
    own = [str(environment), str(environment), f"{environment}/bin/of_the_environment", str(environment)]
    assert said(Activated(LocalInterpreter(python)), tmp_path, variables) == own


def test_what_stands_behind_them_stays():
    made = active("/envs/one/bin/python", {"A": "b"}, "/usr/bin")
    assert made == {"A": "b", "PATH": f"/envs/one/bin{os.pathsep}/usr/bin", "VIRTUAL_ENV": "/envs/one"}
    assert active("/envs/one/bin/python", {"PATH": "/own"}, "/usr/bin")["PATH"] == f"/envs/one/bin{os.pathsep}/own"


def test_only_jobs_in_environments_that_are_made_read_how(matrix):
    readers = readers_of(matrix, "src/kernel_matrix/run/activated.py")
    assert readers.executors == {"venv", "container"}
    checkout = Checkout(matrix, Path(__file__).parents[2])
    platform, toolchain = next((name, next(iter(one.by_toolchain))) for name, one in matrix.platforms.items())
    facts = {name: checkout.facts_of(platform, toolchain, name, ())["reads.harness"] for name in ("venv", "current")}
    assert facts["venv"] != facts["current"]
