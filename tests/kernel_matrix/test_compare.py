"""Every planned case ends in one state, and no case is green without compared numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import few_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from judges import compare, judge

from kernel_matrix.config.plan import plan
from kernel_matrix.results.states import RED, STATES
from kernel_matrix.store.record import Outcome, Record


@pytest.fixture(scope="module")
def planned(matrix):
    return plan(matrix, "quick")


@pytest.fixture(scope="module")
def few(planned):
    return few_cases(planned)


def case_of(planned, cell, dtype="fp32"):
    return next(case for case in planned.cases if case.cell.id == cell and case.axes["dtype"] == dtype)


TRITON = "cuda/sm_90/triton-3.6/mhc_pre.forward"


def compiled(case, kind="cubin"):
    return Record(case.id, "pass", "compile", metrics={"artifact.bytes": 9.0}, facts={"artifact.kind": kind})


def test_a_case_without_a_result_is_missing_and_red(planned):
    comparison = compare(planned, [])
    assert set(comparison.counts) == {"missing", "excluded"}
    assert comparison.is_red


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_states_of_all_planned_cases_add_up_to_the_plan(few, data):
    places = st.integers(0, len(few.cases) - 1)
    outcomes = data.draw(st.dictionaries(places, st.sampled_from(Outcome.__args__)))
    records = [Record(few.cases[index].id, outcome, "run") for index, outcome in outcomes.items()]
    comparison = compare(few, records)
    assert sum(comparison.counts.values()) == len(few.cases)
    for cell in comparison.cells:
        assert sum(cell.counts.values()) == len(cell.cases)
        assert cell.state != "pass", "none of these records holds a number"


def test_a_passing_run_is_green(planned, passing):
    verdict = judge(case := case_of(planned, TRITON), [passing(case)])
    assert (verdict.state, verdict.evidence) == ("pass", "ran")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ({"metrics": {}}, "compared nothing"),
        ({"metrics": {"elements": 0.0}}, "compared nothing"),
        ({"metrics": {"elements": 8.0}}, "owes the figures of h_in, h_post, h_res, m, r"),
        ({"metrics": {"elements": 8.0, "out.max_abs": 1e-7}}, "made by an earlier kernel-matrix: it does not say how"),
        ({"action": ""}, "compared nothing"),
    ],
)
def test_a_record_that_only_says_it_passed_is_an_error(planned, passing, spoil, words):
    verdict = judge(case := case_of(planned, TRITON), [replace(passing(case), **spoil)])
    assert verdict.state == "error"
    assert words in verdict.reason


def test_a_failure_of_another_tool_that_names_no_action_is_no_evidence_that_anything_ran(planned):
    case = case_of(planned, TRITON)
    verdict = judge(case, [Record(case.id, "fail", message="assert 1 == 2")])
    assert (verdict.state, verdict.evidence) == ("fail", "planned")
    assert verdict.reason == "assert 1 == 2 (the record says that it failed, and does not say that anything ran)"


@pytest.mark.slow
def test_compiled_is_not_green_and_source_is_less_than_compiled(planned):
    case = case_of(planned, TRITON)
    assert judge(case, [compiled(case)]).state == "compiled"
    verdict = judge(case, [compiled(case, "hip-source")])
    assert (verdict.state, verdict.evidence) == ("lowered", "lowered")
    assert judge(case, [replace(compiled(case), facts={})]).state == "error"


@pytest.mark.slow
def test_of_two_machines_the_one_that_ran_decides(planned, passing):
    case = case_of(planned, TRITON)
    assert judge(case, [compiled(case), passing(case)]).state == "pass"
    failed = replace(passing(case), outcome="fail", message="out: max_abs 1 is over 0.1")
    assert judge(case, [compiled(case), failed]).state == "fail"
    assert judge(case, [passing(case), failed]).state == "fail", "of equals the worst decides"
    assert judge(case, [Record(case.id, "unavailable"), compiled(case)]).state == "compiled"


KNOWN = "rocm/gfx942/tilelang-0.1.8/mhc_pre.forward"
MESSAGE = "ValueError: Cannot find global function target.build.tilelang_hip_without_compile"


def known_failure(case, message=MESSAGE, stage="lower", version="0.1.8"):
    return Record(case.id, "error", "compile", stage, message, job={"version.tilelang": version})


@pytest.mark.slow
def test_an_expected_failure_is_known_only_with_its_message_stage_and_version(planned):
    case = case_of(planned, KNOWN)
    assert judge(case, [known_failure(case)]).state == "known"
    assert judge(case, [known_failure(case, message="another error")]).state == "error"
    assert judge(case, [known_failure(case, stage="compile")]).state == "error"
    assert judge(case, [known_failure(case, version="0.1.15")]).state == "error"


@pytest.mark.slow
def test_an_expected_failure_that_passes_is_fixed_and_red(planned):
    case = case_of(planned, KNOWN)
    verdict = judge(case, [replace(compiled(case), job={"version.tilelang": "0.1.8"})])
    assert verdict.state == "fixed"
    assert verdict.state in RED
    assert "Take the expectation out" in verdict.reason


def test_a_repeat_that_passes_is_flaky(planned, passing):
    case = case_of(planned, TRITON)
    assert judge(case, [replace(passing(case), attempts=("error:launch",))]).state == "flaky"


def test_a_machine_cannot_exclude_what_the_matrix_does_not(planned):
    case = case_of(planned, TRITON)
    assert judge(case, [Record(case.id, "excluded", message="quiet")]).state == "missing"


@pytest.mark.slow
def test_a_cell_is_as_bad_as_its_worst_case(planned, passing):
    cases = [case for case in planned.cases if case.cell.id == TRITON]
    records = [passing(case) for case in cases]
    records[3] = replace(records[3], outcome="fail", message="wrong")
    [cell] = [c for c in compare(planned, records).cells if c.cell.id == TRITON]
    assert (cell.state, cell.counts) == ("fail", {"fail": 1, "pass": len(cases) - 1})
    records[3] = compiled(cases[3])
    [cell] = [c for c in compare(planned, records).cells if c.cell.id == TRITON]
    assert (cell.state, cell.evidence) == ("compiled", "compiled"), (
        "one case that did not run keeps the cell from green"
    )


def test_records_of_no_planned_case_are_kept_apart(planned):
    foreign = Record("somebody/else/case", "pass", "run")
    assert compare(planned, [foreign]).unplanned == 1


def test_every_state_is_known_to_the_page():
    from kernel_matrix.report.words import MEANING

    assert set(MEANING) == set(STATES)
