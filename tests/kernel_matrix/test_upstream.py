"""A report for a maintainer says how to repeat the failure. Its case is the smallest that still fails in this way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Doubles
from test_probes import HERE, fails, make

from kernel_matrix.config.plan import plan
from kernel_matrix.lab.issue_report import (
    Rerun,
    reduce,
    reduce_case,
    report_case,
    report_probe,
    same_failure,
    since_when,
)
from kernel_matrix.lab.probe import judge
from kernel_matrix.lab.probing import run_probes
from kernel_matrix.results.record import Record
from kernel_matrix.run.environments.local import LocalInterpreter


def test_reduction_finds_the_smallest_shape_and_the_plainest_dtype_that_still_fail():
    def still_fail(several):
        return [axes["tokens"] >= 7 and axes["hidden"] % 2 == 0 and axes["dtype"] == "bf16" for axes in several]

    axes = {"tokens": 1000, "streams": 4, "hidden": 200, "dtype": "bf16", "gamma": True, "scale": 10, "seed": 3}
    smallest, tried = reduce(axes, still_fail)
    assert smallest == {**axes, "tokens": 7, "streams": 1, "hidden": 2}
    assert "dtype fp32: does not fail so" in tried


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            Record("a", "error", stage="launch", message="E: 12 of 40"),
            Record("b", "error", stage="launch", message="E: 3 of 4"),
            True,
        ),
        (
            Record("a", "error", stage="launch", message="E: 12"),
            Record("b", "error", stage="lower", message="E: 12"),
            False,
        ),
        (
            Record("a", "error", stage="launch", message="E: x"),
            Record("b", "error", stage="launch", message="F: y"),
            False,
        ),
        (Record("a", "fail", message="h_in over"), Record("b", "fail", message="h_res over"), True),
        (Record("a", "fail"), Record("b", "pass"), False),
    ],
)
def test_failures_are_the_same_but_for_their_numbers(one, other, same):
    assert same_failure(one, other) is same


def test_a_failing_case_is_run_again_and_reduced_through_the_job_machinery(doubles: Doubles):
    comparison = doubles.run("raises")
    verdict = next(v for cell in comparison.cells for v in cell.cases if v.state == "error")
    case = next(case for case in plan(doubles.matrix, "quick").cases if case.id == verdict.case.id)
    rerun = Rerun(doubles.matrix, doubles.root, doubles.root / "build", HERE, case, executor="current")
    record, axes, tried, specification = reduce_case(rerun, verdict.record)
    assert axes == {"tokens": 2}
    assert "tokens 1: does not fail so" in tried
    text = report_case(case, record, axes, tried, specification, doubles.matrix.package.suite)
    for part in (
        "ZeroDivisionError: the launch was refused",
        "--job job.json",
        '"tokens": 2',
        "## What should",
        "Python 3.",
    ):
        assert part in text


def test_a_failure_that_does_not_come_again_is_not_reduced(doubles: Doubles):
    case = plan(doubles.matrix, "quick").cases[0]
    rerun = Rerun(doubles.matrix, doubles.root, doubles.root / "build", HERE, case, executor="current")
    failed = Record(case.id, "error", "run", "launch", "E: gone")
    record, axes, tried, _ = reduce_case(rerun, failed)
    assert record is failed
    assert axes == case.axes
    assert "did not fail so" in tried[0]


def test_a_probe_s_report_holds_its_program_and_exact_output(tmp_path: Path):
    probe = make(tmp_path, "limit", "raise ValueError('the exact limit')", fails("exact limit"))
    [record] = run_probes([probe], "tool", LocalInterpreter(Path(sys.executable)), HERE, {})
    text = report_probe(judge(probe, "tool", record), "numpy: 1.0 works, 2.0 fails", "here")
    assert "```python\nraise ValueError('the exact limit')\n```" in text
    assert "ValueError: the exact limit" in text
    assert "numpy: 1.0 works, 2.0 fails" in text
    assert "- numpy " in text
    assert "/// probe" not in text


def test_since_when_comes_from_the_kept_sweeps(tmp_path: Path):
    sweep = tmp_path / "tool.json"
    sweep.write_text(
        '{"package": "tool", "rows": ['
        '{"version": "0.1.10", "pins": {}, "probes": {"f/p": {"outcome": "error"}}},'
        '{"version": "0.1.9", "pins": {}, "probes": {"f/p": {"outcome": "pass"}}}]}'
    )
    assert since_when("f/p", [sweep]) == "tool: 0.1.9 works, 0.1.10 fails"
    assert since_when("f/other", [sweep]).startswith("not swept")
