"""Of many results a report of some cases reads only the runs that have one of these, and says of them the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from common import Doubles, options, write_results
from records import BAD, CELL, JOB
from records import GOOD as PASSED

from kernel_matrix.cli import main
from kernel_matrix.store import names, touched

GOOD, RED = replace(PASSED, case=f"{CELL}/tokens1"), replace(BAD, case=f"{CELL}/tokens2")
OTHER = CELL.replace("/good/", "/wrong/")
FACTS = {**JOB, "job": "here.wrong", "toolchain": "wrong"}


@pytest.fixture
def results(doubles: Doubles) -> Path:
    """Write a run with two cases that are asked for, one with a probe, and one with another toolchain's case."""
    folder = doubles.root / "results"
    write_results(folder, [GOOD, RED])
    write_results(folder, [replace(GOOD, case="probe/lock/family/name", job={**JOB, "job": "probes"})])
    write_results(folder, [replace(GOOD, case=f"{OTHER}/tokens1", job=FACTS)])
    (doubles.root / "cases").write_text(f"{GOOD.case}\n{RED.case}\n{CELL}/tokens3\n")
    return folder


def reported(doubles: Doubles, results: Path) -> tuple[int, dict[str, Any], dict[str, bytes]]:
    """Return the status of a report of the cases, its document, and its files of cells."""
    status = main(["report", *options(doubles, "--cases", str(doubles.root / "cases"), str(results))])
    site = doubles.root / "build" / "site"
    files = {path.name: path.read_bytes() for path in (site / "data" / "cells").iterdir()}
    return status, json.loads((site / "compat.json").read_text()), files


@pytest.mark.slow
def test_a_report_of_some_cases_reads_only_the_runs_that_have_one(doubles: Doubles, results: Path, monkeypatch, capsys):
    status, whole, cells = reported(doubles, results)
    assert whole["run"]["unplanned"] == 1
    assert {"error", "missing"} <= whole["run"]["cases_by_state"].keys()
    monkeypatch.setattr(touched, "MANY", 4)  # as many as there are
    assert reported(doubles, results)[1]["notes"] == whole["notes"]
    monkeypatch.setattr(touched, "MANY", 3)
    part = reported(doubles, results)
    assert (part[0], part[2]) == (status, cells)
    assert [part[1][name] for name in ("cells", "lanes", "jobs", "toolchains")] == [
        whole[name] for name in ("cells", "lanes", "jobs", "toolchains")
    ]
    assert part[1]["run"]["unplanned"] == 0
    unread = "1 results were not read: their runs have none of the cases that are asked for."
    assert unread in part[1]["notes"]
    assert unread not in whole["notes"]
    said = capsys.readouterr()
    assert "audit:" not in said.out + said.err


@pytest.mark.slow
def test_a_run_that_cannot_be_used_is_refused_if_it_is_touched(doubles: Doubles, results: Path, monkeypatch, capsys):
    monkeypatch.setattr(touched, "MANY", 0)
    of_job = {files.job: files for files in names.find(results)}
    outputs = of_job["here.wrong"].path("outputs")
    outputs.write_bytes(of_job["probes"].path("outputs").read_bytes())
    assert reported(doubles, results)[0] == 1  # nobody asks for its rows
    content = outputs.read_bytes()
    of_job["here.good"].path("outputs").write_bytes(content)
    assert reported(doubles, results)[0] == 2
    of_job["here.good"].path("cases").write_bytes(b"no table")
    capsys.readouterr()
    assert reported(doubles, results)[0] == 2
    said = capsys.readouterr()
    assert "cases/here.good" in said.out + said.err
    assert "is no whole Parquet file" in said.out + said.err
