"""Every planned case ends in one state, and no case is green without compared numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from common import few_cells
from hypothesis import given, settings
from hypothesis import strategies as st
from judges import compare, judge_each
from records import TRITON, case_of, compiled

from kernel_matrix.config.plan import plan
from kernel_matrix.results.states import RED, STATES
from kernel_matrix.store.record import Outcome, Record


@pytest.fixture(scope="module")
def planned(matrix):
    return plan(matrix, "quick")


@pytest.fixture(scope="module")
def few(planned):
    return few_cells(planned)


def test_a_case_without_a_result_is_missing_and_red(planned):
    comparison = compare(planned, [])
    assert set(comparison.counts) == {"missing", "excluded"}
    assert comparison.is_red


@pytest.mark.slow
@settings(max_examples=10)
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


SPOILT = [
    ({"metrics": {}}, "compared nothing"),
    ({"metrics": {"elements": 0.0}}, "compared nothing"),
    ({"metrics": {"elements": 8.0}}, "owes the figures of h_in, h_post, h_res, m, r"),
    ({"metrics": {"elements": 8.0, "out.max_abs": 1e-7}}, "made by an earlier kernel-matrix: it does not say how"),
    ({"action": ""}, "compared nothing"),
]


@pytest.fixture(scope="module")
def verdicts(planned, passing):
    """Return the verdict of each of these results of a case, by the name of the result."""
    case = case_of(planned, TRITON)
    passed, failed = passing(case), replace(passing(case), outcome="fail", message="out: max_abs 1 is over 0.1")
    spoilt = {f"spoilt {number}": [replace(passed, **spoil)] for number, (spoil, _) in enumerate(SPOILT)}
    return judge_each(case, spoilt | {
        "passed": [passed],
        "failed elsewhere": [Record(case.id, "fail", message="assert 1 == 2")],
        "compiled": [compiled(case)],
        "lowered": [compiled(case, "hip-source")],
        "compiled to what": [replace(compiled(case), facts={})],
        "compiled and passed": [compiled(case), passed],
        "compiled and failed": [compiled(case), failed],
        "passed and failed": [passed, failed],
        "unavailable and compiled": [Record(case.id, "unavailable"), compiled(case)],
        "repeated": [replace(passed, attempts=("error:launch",))],
        "excluded by a machine": [Record(case.id, "excluded", message="quiet")],
    })  # fmt: skip


def test_a_passing_run_is_green(verdicts):
    assert (verdicts["passed"].state, verdicts["passed"].evidence) == ("pass", "ran")


def test_a_record_that_only_says_it_passed_is_an_error(verdicts):
    for number, (spoil, words) in enumerate(SPOILT):
        verdict = verdicts[f"spoilt {number}"]
        assert (verdict.state, words in verdict.reason) == ("error", True), (spoil, verdict.reason)


def test_a_failure_of_another_tool_that_names_no_action_is_no_evidence_that_anything_ran(verdicts):
    verdict = verdicts["failed elsewhere"]
    assert (verdict.state, verdict.evidence) == ("fail", "planned")
    assert verdict.reason == "assert 1 == 2 (the record says that it failed, and does not say that anything ran)"


def test_compiled_is_not_green_and_source_is_less_than_compiled(verdicts):
    assert verdicts["compiled"].state == "compiled"
    assert (verdicts["lowered"].state, verdicts["lowered"].evidence) == ("lowered", "lowered")
    assert verdicts["compiled to what"].state == "error"


def test_of_two_machines_the_one_that_ran_decides(verdicts):
    assert verdicts["compiled and passed"].state == "pass"
    assert verdicts["compiled and failed"].state == "fail"
    assert verdicts["passed and failed"].state == "fail", "of equals the worst decides"
    assert verdicts["unavailable and compiled"].state == "compiled"


KNOWN = "rocm/gfx942/tilelang-0.1.8/mhc_pre.forward"
MESSAGE = "ValueError: Cannot find global function target.build.tilelang_hip_without_compile"


def known_failure(case, message=MESSAGE, stage="lower", version="0.1.8"):
    return Record(case.id, "error", "compile", stage, message, job={"version.tilelang": version})


def test_an_expected_failure_is_known_only_with_its_message_stage_and_version_and_fixed_where_it_passes(planned):
    case = case_of(planned, KNOWN)
    found = judge_each(case, {
        "known": [known_failure(case)],
        "another message": [known_failure(case, message="another error")],
        "another stage": [known_failure(case, stage="compile")],
        "another version": [known_failure(case, version="0.1.15")],
        "passed": [replace(compiled(case), job={"version.tilelang": "0.1.8"})],
    })  # fmt: skip
    assert [verdict.state for verdict in found.values()] == ["known", "error", "error", "error", "fixed"]
    assert found["passed"].state in RED
    assert "Take the expectation out" in found["passed"].reason


def test_a_repeat_that_passes_is_flaky(verdicts):
    assert verdicts["repeated"].state == "flaky"


def test_a_machine_cannot_exclude_what_the_matrix_does_not(verdicts):
    assert verdicts["excluded by a machine"].state == "missing"


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
    from kernel_matrix.report.sentences import MEANING

    assert set(MEANING) == set(STATES)
