"""Run programs in the environment of a toolchain: shared by the tests of toolchains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from common import environments_of

from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record

ROOT = Path(__file__).parents[2]
_SECONDS = 1200  # beside twelve busy processes the threads that TVM starts itself were still waiting after 30 minutes


def run(python: Path, *words: str | Path, **variables: str) -> str:
    """Run a program with the package on its path, and return what it writes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
    command = [python, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def results_of(python: Path, program: Path, *words: str, **variables: str) -> dict[tuple[str, str], dict]:
    """Run a program that writes a line for each of its kernels on each target, and return the result of each."""
    lines = [json.loads(line) for line in run(python, program, *words, **variables).splitlines()]
    return {(name, target): result for name, target, result in lines}


def records_of(folder: Path, cases: list[str], **variables: str) -> list[Record]:
    """Run cases as a job does, in the project's environments, and return their records."""
    command = [sys.executable, "-m", "kernel_matrix", "run", "--executor", "venv"]
    command += ["--build", str(environments_of(folder)), *(word for case in cases for word in ("--case", case))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [record for record in collect([folder / "results"]).records if record.case in cases]
