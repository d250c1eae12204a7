"""The script that makes results of any size writes such as the harness takes, and measures their report."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT

from kernel_matrix import judging, pipeline
from kernel_matrix.store.load import collect
from kernel_matrix.store.write import write_all


def scale(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "scale"), *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


# Jobs with results of every operator that ran, some that were only compiled, and some errors.
LIKE = ("cpu-llvm.reference", "cuda.triton-3.7", "rocm.tilelang-0.1.8")


def few_real_results(folder: Path) -> Path:
    """Return a folder with three jobs of the kept results: reading all of them takes longer than the rest of a test."""
    kept = collect([ROOT / "docs" / "results" / "cpu-2-cores"]).records
    written = write_all(folder, [record for record in kept if record.job["job"] in LIKE])
    assert len(written) == len(LIKE)
    return folder


@pytest.mark.nightly
def test_made_up_results_are_reported_from_both_forms(tmp_path):
    like = few_real_results(tmp_path / "like")
    options = ("--cases", "1000", "--jobs", "4", "--parquet", "--like", str(like))
    made = scale(*options, "--into", str(tmp_path))
    assert made.returncode == 0, made.stderr
    [(results, planned)] = re.findall(r"(\d+) results of (\d+) planned cases\n$", made.stdout)
    assert 0.9 * int(planned) < int(results) < int(planned), "few cases have no result"
    measured = scale("--into", str(tmp_path), "--measure", "junit", "tables")
    assert measured.returncode == 0, measured.stderr
    assert [line[: line.index(" in ")] for line in measured.stdout.splitlines()] == [
        f"junit: {planned} cases", f"tables: {planned} cases"
    ]  # fmt: skip
    project = pipeline.load(tmp_path / "matrix.yaml")
    with judging.judged(project, pipeline.plan(project, "quick"), [tmp_path / "results"]) as judged:
        assert judged.counts["pass"] > int(planned) / 2 > sum(judged.stale.values()), (
            "a job says what it read, and few are stale"
        )


@pytest.mark.slow
def test_too_few_cases_for_the_jobs_are_refused(tmp_path):
    few = ROOT / "docs" / "results" / "nvidia-h200"
    refused = scale("--cases", "100", "--jobs", "10", "--like", str(few), "--into", str(tmp_path / "none"))
    assert (refused.returncode, refused.stdout) == (2, "")
    [least] = re.findall(r"10 jobs have at least (\d+) cases", refused.stderr)
    assert int(least) > 1000, "a job has each operator of the kept results"
