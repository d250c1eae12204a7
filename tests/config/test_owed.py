"""matrix.yaml says what a result must prove: its outputs, and which cases carry canaries."""

from __future__ import annotations

import pytest
from common import harness
from loops import at_least
from shown import Page

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.canary_cases import canary_cases, group_of
from kernel_matrix.config.plan import outputs_not_named, plan
from kernel_matrix.job.budget import Pair, limits
from kernel_matrix.results.states import detection
from kernel_matrix.store.record import Record


@pytest.fixture(scope="module")
def planned(matrix):
    return plan(matrix, "full")


def job_named(planned, name):
    return next(job for job in planned.jobs if job.id == name)


def test_every_case_of_the_project_names_its_outputs(planned):
    assert outputs_not_named(planned) == ()
    owed = {
        f"{case.cell.op}.{case.cell.direction}": case.owed.outputs
        for case in planned.cases
        if case.axes.get("gamma", 1)
    }
    assert owed["mhc_pre.forward"] == ("h_in", "h_post", "h_res", "m", "r")
    assert owed["mhc_pre.backward"] == ("x", "phi", "alpha", "bias", "gamma")


def test_an_output_may_depend_on_an_axis(planned):
    of = {
        case.axes["gamma"]: case.owed.outputs for case in planned.cases if case.id.split("/")[3] == "mhc_pre.backward"
    }
    assert of[True] == (*of[False], "gamma")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("outputs: { forward: [out], sideways: [out] }", "unknown direction 'sideways'"),
        ("outputs: { forward: [] }", "the direction 'forward' has no output. Name its outputs."),
        ("outputs: { forward: [out, out] }", "the output 'out' is here twice"),
        ("outputs: { forward: [{ out: { streams: 4 } }] }", "unknown axis 'streams'"),
        ("outputs: { forward: [{ out: { tokens: 1 }, more: { tokens: 2 } }] }", "outputs.forward[0]"),
        ("outputs: { forward: ['out@fast'] }", "outputs.forward[0]"),
        ("canary: { hidden: 7 }", "unknown axis 'hidden'"),
    ],
)
def test_a_fault_in_what_is_owed_is_named_with_its_line(doubles, given, words):
    doubles.edit("axes: [tokens]", f"axes: [tokens]\n    {given}")
    with pytest.raises(UserError) as error:
        _ = doubles.matrix
    assert words in str(error.value)
    assert str(error.value).startswith("matrix.yaml:")


@pytest.mark.slow
def test_a_package_that_does_not_name_its_outputs_hears_so(doubles):
    words = "does not name the outputs of double.forward: a result is taken with any one output."
    options = ("--matrix", str(doubles.root / "matrix.yaml"))
    assert words in harness("check", *options).stdout
    (doubles.root / "build" / "results").mkdir(parents=True)
    harness("report", *options)
    assert words in Page(doubles.root / "build" / "site").text
    doubles.edit("axes: [tokens]", "axes: [tokens]\n    outputs: { forward: [out] }")
    assert words not in harness("check", *options).stdout


def test_every_target_operator_direction_and_dtype_of_a_job_has_one_canary(planned):
    for job in at_least(50, planned.jobs):
        canaries = canary_cases(job.cases)
        chosen = [case for case in job.cases if case.id in canaries]
        assert len(chosen) == len({group_of(case) for case in chosen}) == len({group_of(case) for case in job.cases})


def test_the_choice_of_canaries_does_not_depend_on_the_order_or_on_the_toolchain(planned):
    one, other = job_named(planned, "cpu-llvm.reference"), job_named(planned, "cpu-llvm.tvm-0.27")
    assert canary_cases(one.cases) == canary_cases(reversed(one.cases))
    offered = {case.cell.op for case in other.cases}  # TVM does not offer every operator
    alike = [case for case in one.cases if case.cell.op in offered]
    native = [[case for case in canary_cases(cases) if "/x86-64-v3/" in case] for cases in (alike, other.cases)]
    names = [{case.rpartition("/")[2] for case in cases} for cases in native]
    assert names[0] == names[1]


def test_canaries_are_in_cases_that_matrix_yaml_calls_apt(planned, matrix):
    job = job_named(planned, "cpu-llvm.reference")
    canaries = canary_cases(job.cases)
    chosen = [case for case in job.cases if case.id in canaries]
    assert {case.axes["tokens"] for case in chosen if case.cell.op == "mhc_pre"} <= {7, 128, 5, 129}
    apt = {(case.cell, case.axes["dtype"]) for case in job.cases if case.owed.apt_for_canaries}
    assert all(case.owed.apt_for_canaries for case in chosen if (case.cell, case.axes["dtype"]) in apt)


def test_a_run_of_the_full_tier_has_its_canaries_in_cases_of_the_quick_tier(planned, matrix):
    quick = {case.id for case in plan(matrix, "quick").cases}
    for job in at_least(50, planned.jobs):
        assert [case.id for case in job.cases if case.is_quick != (case.id in quick)] == []
        canaries = canary_cases(job.cases)
        carriers = {group_of(case): case.id for case in job.cases if case.id in canaries}
        of_both = {group_of(case) for case in job.cases if case.is_quick and not case.expectations}
        assert [carriers[group] for group in of_both if carriers[group] not in quick] == []


@pytest.mark.slow
def test_a_job_carries_canaries_and_its_record_says_how_many_were_caught(doubles):
    comparison = doubles.run("good")
    records = [verdict.record for cell in comparison.cells for verdict in cell.cases]
    assert [record.metrics.get("canary.injected", 0) > 0 for record in records].count(True) == 1
    found = detection(records)
    assert found.caught == found.injected > 0
    job = records[0].job
    assert (job["canary.injected"], job["canary.caught"]) == (str(found.injected), str(found.caught))
    assert [verdict.state for cell in comparison.cells for verdict in cell.cases] == ["pass"] * 3


@pytest.mark.slow
def test_a_job_that_resumes_owes_no_second_canary(doubles):
    first = doubles.run("good")
    again = doubles.run("good", resume=True)
    assert [v.state for c in again.cells for v in c.cases] == [v.state for c in first.cells for v in c.cases]


def test_the_detection_of_records_is_their_sum():
    records = [Record("a", "pass", metrics={"canary.injected": 5.0, "canary.caught": n}) for n in (5.0, 4.0)]
    assert detection(records).facts == {"canary.injected": "10", "canary.caught": "9"}
    assert detection([Record("a", "pass")]).facts == {}


def test_limits_are_the_formula_of_matrix_yaml():
    """min(cap, max(factor × noise, √steps × conditioning)), worked out by hand."""
    rules = {"factor": 4.0, "rounded": 1.5, "ulps": 4.0}
    floor, conditioning = Pair(1e-3, 2e-3), Pair(1e-4, 1e-4)
    wide = limits(floor, conditioning, largest=1.0, itemsize=4, steps=1, cap=1.0, **rules)
    assert wide == Pair(4e-3, 8e-3)
    narrow = limits(floor, conditioning, largest=1.0, itemsize=2, steps=1, cap=1.0, **rules)
    assert narrow == Pair(4e-3, 3e-3)
    long = limits(floor, conditioning, largest=1.0, itemsize=4, steps=10_000, cap=1.0, **rules)
    assert long == Pair(1e-2, 1e-2)
    assert limits(floor, conditioning, largest=1.0, itemsize=4, steps=10_000, cap=5e-3, **rules).max_abs == 5e-3
    lucky = limits(Pair(0, 0), Pair(0, 0), largest=3.0, itemsize=4, steps=1, cap=1.0, **rules)
    assert lucky == Pair(4 * 4 * 2.0**-22, 4 * 4 * 2.0**-23)
