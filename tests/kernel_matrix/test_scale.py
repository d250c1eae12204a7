"""The script that makes results of any size writes such as the harness takes, and measures their report."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT


def scale(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "scale"), *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_made_up_results_are_reported_from_both_forms(tmp_path):
    made = scale("--cases", "960", "--jobs", "4", "--parquet", "--into", str(tmp_path))
    assert made.returncode == 0, made.stderr
    assert made.stdout.endswith("results of 960 planned cases\n")
    measured = scale("--into", str(tmp_path), "--measure", "junit", "tables")
    assert measured.returncode == 0, measured.stderr
    assert [line[: line.index(" in ")] for line in measured.stdout.splitlines()] == [
        "junit: 960 cases", "tables: 960 cases"
    ]  # fmt: skip


@pytest.mark.slow
def test_too_few_cases_for_the_jobs_are_refused(tmp_path):
    few = ROOT / "docs" / "results" / "nvidia-h200"
    refused = scale("--cases", "100", "--jobs", "10", "--like", str(few), "--into", str(tmp_path / "none"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "10 jobs have at least 2400 cases" in refused.stderr
