"""A report for a maintainer says how to repeat the failure. Its case is the smallest that still fails in this way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from common import Doubles
from test_probes import HERE, fails, make

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import plan
from kernel_matrix.pipeline import load
from kernel_matrix.probes.attempts import Attempt, Sweep, keep
from kernel_matrix.probes.expected import judge
from kernel_matrix.probes.probing import run_probes
from kernel_matrix.report.toolchains import SweptProbe
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.store.record import Record
from kernel_matrix.tools.toolchains.issue_report import (
    of_case,
    of_probe,
    report_failing_case,
    report_failing_probe,
    since_when,
)
from kernel_matrix.tools.toolchains.reduction import Rerun, reduce, reduce_case, same_failure


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


@pytest.mark.slow
def test_a_failing_case_is_run_again_and_reduced_through_the_job_machinery(doubles: Doubles):
    comparison = doubles.run("raises")
    verdict = next(v for cell in comparison.cells for v in cell.cases if v.state == "error")
    project = load(doubles.root / "matrix.yaml")
    case = next(case for case in plan(project.matrix, "quick").cases if case.id == verdict.case.id)
    reduction = reduce_case(Rerun(project, HERE, case, executor="current"), verdict.record)
    assert reduction.axes == {"tokens": 2}
    assert "tokens 1: does not fail so" in reduction.tried
    text = of_case(case, reduction, project.matrix.package.suite).markdown(project)
    for part in (
        "ZeroDivisionError: the launch was refused",
        "--job job.json",
        '"tokens": 2',
        "## What should",
        "Python 3.",
        "- numpy ",
    ):
        assert part in text
    assert "- pytest " not in text, "matrix.yaml names the distributions of interest"


@pytest.mark.slow
def test_a_failing_cell_is_found_in_the_results(doubles: Doubles):
    doubles.run("raises")
    project = load(doubles.root / "matrix.yaml")
    text = report_failing_case(project, "here/any/raises/double.forward", (), HERE, "current")
    assert "ZeroDivisionError: the launch was refused" in text
    for identity, message in (("here/any/good/double.forward", "no result says that it fails"), ("a/b/c", "neither a")):
        with pytest.raises(UserError, match=message):
            report_failing_case(project, identity, (), HERE, "current")


@pytest.mark.slow
def test_a_failure_that_does_not_come_again_is_not_reduced(doubles: Doubles):
    project = load(doubles.root / "matrix.yaml")
    case = plan(project.matrix, "quick").cases[0]
    failed = Record(case.id, "error", "run", "launch", "E: gone")
    reduction = reduce_case(Rerun(project, HERE, case, executor="current"), failed)
    assert reduction.record is failed
    assert reduction.axes == case.axes
    assert "did not fail so" in reduction.tried[0]


def test_a_probe_s_report_holds_its_program_and_exact_output(doubles: Doubles, tmp_path: Path):
    probe = make(tmp_path, "limit", "raise ValueError('the exact limit')", fails("exact limit"))
    [record] = run_probes([probe], "tool", LocalInterpreter(Path(sys.executable)), HERE, {})
    report = of_probe(judge(probe, "tool", record), record, "numpy: 1.0 works, 2.0 fails", "here")
    text = report.markdown(load(doubles.root / "matrix.yaml"))
    assert "```python\nraise ValueError('the exact limit')\n```" in text
    assert "ValueError: the exact limit" in text
    assert "numpy: 1.0 works, 2.0 fails" in text
    assert "- numpy " in text
    assert "/// probe" not in text


@pytest.mark.slow
def test_a_failing_probe_is_found_among_the_toolchains(doubles: Doubles):
    doubles.edit("suite: suite,", "suite: suite, probes: probes,")
    (doubles.root / "probes").mkdir()
    make(doubles.root / "probes", "limit", "raise ValueError('the exact limit')", fails("exact limit"))
    make(doubles.root / "probes", "fine", "")
    project = load(doubles.root / "matrix.yaml")
    text = report_failing_probe(project, "family/limit", None, HERE, "current")
    assert "ValueError: the exact limit" in text
    assert "not swept: `kernel-matrix toolchains sweep" in text
    for probe, toolchain, message in (
        ("family/fine", None, "so there is nothing to report"),
        ("family/lim", None, "Did you mean 'family/limit'"),
        ("family/limit", "goood", "Did you mean 'good'"),
    ):
        with pytest.raises(UserError, match=message):
            report_failing_probe(project, probe, toolchain, HERE, "current")


def test_since_when_comes_from_the_kept_sweeps(tmp_path: Path):
    def attempt(version: str, outcome: str) -> Attempt:
        return Attempt(version=version, probes={"f/p": SweptProbe(verdict="works", outcome=outcome)})

    attempts = [attempt("0.1.10", "error"), attempt("0.1.9", "pass")]
    keep(tmp_path / "tool.json", Sweep(package="tool", created="", attempts=attempts))
    assert since_when("f/p", [tmp_path / "tool.json"]) == "tool: 0.1.9 works, 0.1.10 fails"
    assert since_when("f/other", [tmp_path / "tool.json"]).startswith("not swept")
