"""A job's word on its canaries is compared with all its results, even those that this plan does not have."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from test_judge import enter, verdicts_of
from together import first_are_quick
from worlds import raw_of

from kernel_matrix.audit.untrusted_jobs import faulty
from kernel_matrix.config.plan import Job, plan
from kernel_matrix.judge.verdicts import judge
from kernel_matrix.results.plan_columns import of_plan
from kernel_matrix.results.present import Present
from kernel_matrix.results.states import CAUGHT, INJECTED, MISSED
from kernel_matrix.store.database import database
from kernel_matrix.store.record import PROBE, Record
from kernel_matrix.store.records import Jobs
from kernel_matrix.store.sampled import Samples
from kernel_matrix.store.validation import Bounds

CELL = "cuda/sm_90/triton-3.7/mhc_pre.forward"


@pytest.fixture(scope="module")
def tiers(matrix):
    """Return a plan of the quick tier's cases of one cell and dtype, and those that only the full tier has."""
    full = [case for case in plan(matrix, "full").cases if case.cell.id == CELL and case.axes["dtype"] == "fp32"]
    quick = {case.id for case in plan(matrix, "quick").cases}
    planned = tuple(case for case in full if case.id in quick)
    others = [case for case in full if case.id not in quick]
    assert len(planned) > 2
    assert len(others) > 1
    return replace(plan(matrix, "quick"), jobs=(Job("cuda", "triton-3.7", planned),)), others


@pytest.fixture(scope="module")
def connection():
    with database() as opened:
        yield opened


@pytest.fixture
def made(tiers, passing):
    """Return records: two carriers of the plan, the rest of the plan without canaries, two carriers outside of it."""
    planned, others = tiers
    first, second, *rest = planned.cases
    plain = [without_counts(passing(case)) for case in rest]
    return [passing(first), passing(second), *plain, *map(passing, others[:2])]


def with_counts(record, injected, caught, missed=""):
    facts = {MISSED: missed} if missed else {}
    return replace(record, metrics={**record.metrics, INJECTED: injected, CAUGHT: caught}, facts=facts)


def without_counts(record):
    return replace(record, metrics={k: v for k, v in record.metrics.items() if k not in (INJECTED, CAUGHT)})


def of_job(records, injected=None, caught=None):
    """Return the records as one job's, with the numbers of its canaries; without numbers it says nothing."""
    told = {} if injected is None else {INJECTED: str(injected), CAUGHT: str(caught)}
    job = {**records[0].job, **told}
    return [replace(record, job=job) for record in records]


def reasons(planned, files, connection):
    """Return the states and reasons of all planned cases."""
    return {verdict[:2] for verdict in with_stale(planned, files, connection, None)}


def with_stale(planned, files, connection, present):
    """Return the states and reasons of all planned cases, and why they are stale."""
    enter(connection, files)
    judge(connection, of_plan(planned), Jobs(connection), present, Samples(Bounds()))
    return {(state, reason, stale) for state, _, reason, stale, _ in verdicts_of(connection)}


def good(records):
    return of_job(records, 24, 24)


def says_nothing(records):
    return of_job(records)


def with_a_probe(records):
    return good([*records, with_counts(Record(f"{PROBE}triton-3.7/one", "pass", "run"), 6.0, 6.0)])


def huge(records):
    return says_nothing([with_counts(records[0], 1e300, 1e300), *records[1:]])


@pytest.mark.parametrize("of_all", first_are_quick(1, [good, says_nothing, with_a_probe, huge]))
def test_a_job_whose_results_say_what_it_says_is_good(tiers, made, connection, of_all):
    records = of_all(made)
    assert reasons(tiers[0], [records], connection) == {("pass", "")}


@pytest.mark.slow
def test_the_canaries_of_a_refused_result_count(tiers, made, connection):
    """Another job has the same case with other inputs, so both are refused. The second carrier has what is owed."""
    first, *rest = made
    mine = good([replace(first, facts={"inputs.sha256": "a" * 64}), *rest])
    files = [mine, [replace(first, facts={"inputs.sha256": "b" * 64})]]
    words = f"refused: other inputs ({'a' * 16}) than as many other results of the same case have"
    assert reasons(tiers[0], files, connection) == {("missing", words), ("pass", "")}


FAULTY = {
    "it says more than its cases": (
        lambda records: of_job(records, 30, 30),
        "this job says that it caught 30 of 30 injected faults, and its cases say 24 of 24",
    ),
    "it says what the planned cases say": (
        lambda records: of_job(records, 12, 12),
        "this job says that it caught 12 of 12 injected faults, and its cases say 24 of 24",
    ),
    "a case that is not planned missed one": (
        lambda records: of_job([*records[:-1], with_counts(records[-1], 6.0, 5.0, "h_in: a NaN")], 24, 23),
        "the comparison of this job missed 1 of 24 injected faults: h_in: a NaN",
    ),
    "a case that is not planned found more than was put in": (
        lambda records: of_job([*records[:-1], with_counts(records[-1], 6.0, 7.0)], 24, 25),
        "the counts of the injected faults in the records of this job are impossible",
    ),
    "only cases that are not planned have canaries": (
        lambda records: of_job([*map(without_counts, records[:-2]), *records[-2:]], 12, 12),
        "this job injected no fault into a result of mhc_pre.forward in fp32 on sm_90: nothing shows that it compares",
    ),
}


@pytest.mark.parametrize("name", first_are_quick(1, FAULTY))
def test_a_job_is_not_trusted(tiers, made, connection, name):
    edit, words = FAULTY[name]
    records = edit(made)
    assert reasons(tiers[0], [records], connection) == {("error", words)}


OWED = "this job injected no fault into a result of mhc_pre.forward in fp32 on sm_90: nothing shows that it compares"
OF_ANOTHER_PLAN = FAULTY["only cases that are not planned have canaries"][0]
THE_NEXT_DAY, THE_YEAR_BEFORE = datetime(2026, 1, 2, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
IN_FUTURE = "it started at 2026-01-01T00:00:00Z, which is in the future"


def begun(records):
    return [replace(record, job={**record.job, "started": "2026-01-01T00:00:00Z"}) for record in records]


def verdicts_at(time, tiers, connection, records):
    return with_stale(tiers[0], [begun(records)], connection, Present(time))


@pytest.mark.slow
def test_a_stale_job_owes_no_canaries_of_the_plan_of_today(tiers, made, connection):
    assert verdicts_at(THE_YEAR_BEFORE, tiers, connection, OF_ANOTHER_PLAN(made)) == {("pass", "", IN_FUTURE)}


def test_a_job_of_the_present_owes_the_canaries_of_the_plan_of_today(tiers, made, connection):
    assert verdicts_at(THE_NEXT_DAY, tiers, connection, OF_ANOTHER_PLAN(made)) == {("error", OWED, "")}


@pytest.mark.slow
def test_a_stale_job_owes_one_canary_at_all(tiers, made, connection):
    records = of_job([*map(without_counts, made)])
    assert verdicts_at(THE_YEAR_BEFORE, tiers, connection, records) == {("error", OWED, IN_FUTURE)}


@pytest.mark.parametrize(("fresh", "with_some"), [(True, {"1"}), (False, set())])
def test_the_audit_asks_the_canaries_of_today_of_results_that_are_not_stale(tiers, made, fresh, with_some):
    records = [replace(record, run="1") for record in OF_ANOTHER_PLAN(made)]
    for given, of_all in ((records, with_some), ([*map(without_counts, records)], {"1"})):
        raws = {record.case: [raw_of(record)] for record in given}
        known = {id(raw): fresh for [raw] in raws.values()}
        assert faulty(raws, {case.id: case.axes for case in tiers[0].cases}, lambda *_: True, known) == of_all
