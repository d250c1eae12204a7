"""Results as columns give the same verdicts as results as objects, case by case."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from conftest import ROOT
from hypothesis import example, given, settings
from hypothesis import strategies as st
from worlds import world

from kernel_matrix import pipeline
from kernel_matrix.judge.verdicts import judge
from kernel_matrix.results.compare import STATES, compare
from kernel_matrix.results.planned import of_plan
from kernel_matrix.results.present import present
from kernel_matrix.store.database import database, rows
from kernel_matrix.store.load import collect, load
from kernel_matrix.store.record import is_case_record
from kernel_matrix.store.records import Jobs, insert_batches, records_of
from kernel_matrix.store.rows import of_records


@pytest.fixture(scope="module")
def tables():
    with database() as connection:
        yield connection


def verdicts_of(connection):
    """Return the verdicts in the order of the plan, each with its record."""
    found = rows(connection, "SELECT state, evidence, reason, stale, record FROM verdicts ORDER BY planned")
    records = records_of(connection, [number for *_, number in found if number is not None], Jobs(connection))
    return [(*verdict, records[number] if number is not None else None) for *verdict, number in found]


def expected_of(plan, comparison):
    by_case = {verdict.case.id: verdict for cell in comparison.cells for verdict in cell.cases}
    verdicts = [by_case[case.id] for case in plan.cases]
    return [(v.state, v.evidence, v.reason, v.stale, without_samples(v.record)) for v in verdicts]


def without_samples(record):
    return record and replace(record, samples={})


def comparable(verdicts):
    """Return verdicts that can be compared: a NaN is not equal to itself."""
    return [repr(verdict[:4]) + ordered(verdict[4]) for verdict in verdicts]


def ordered(record):
    if record is None:
        return "no record"
    parts = {
        **vars(record),
        "run": "",
        "metrics": sorted(record.metrics.items()),
        "facts": sorted(record.facts.items()),
    }
    return repr({**parts, "job": sorted(record.job.items())})


def enter(connection, files):
    """Make the records of some files the only ones."""
    for table in ("sources", "jobs", "cases", "outputs"):
        connection.execute(f"DELETE FROM {table}").fetchall()
    batches = [of_records(file) for file in files]
    jobs, cases, outputs = (
        pa.concat_tables(
            table.append_column("file", pa.array([number] * table.num_rows, pa.int32()))
            for number, table in enumerate(tables)
        )
        for tables in zip(*((one.jobs, one.cases, one.outputs) for one in batches), strict=True)
    )
    insert_batches(connection, jobs, cases, outputs, 1)
    sources = "INSERT INTO sources SELECT 1 + n, n::VARCHAR, n FROM range(?) AS numbers(n)"
    connection.execute(sources, [len(files)]).fetchall()


def judged(connection, seed):
    """Return a world at random with both kinds of verdicts."""
    plan, files, presence = world(Random(seed))
    enter(connection, files)
    judge(connection, of_plan(plan), presence)
    comparison = compare(plan, [record for file in files for record in file], presence)
    return plan, expected_of(plan, comparison), verdicts_of(connection)


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=985)  # a test of a suite and a case of the harness that end with the same words in one job
def test_both_roads_give_the_same_verdicts(tables, seed):
    plan, expected, found = judged(tables, seed)
    for case, wanted, verdict in zip(plan.cases, comparable(expected), comparable(found), strict=True):
        assert verdict == wanted, case.id


# A part of the reason of each rule, or its state.
RULES = (
    *("no result came", "the machine excluded it", "no such device", "passed after", "It is not wanted here."),
    *("Tried all the same, it passes", "Tried all the same: fail", "it passes, and is expected to fail", "is over)"),
    *("refused: other inputs (aaaaaaaaaaaaaaaa) than as many", "than most results", "compared nothing"),
    *("holds no artifact", "does not say that anything ran", "the record owes the figures of", "made by an earlier"),
    *("which is no output of this case", "cannot be nan", "cannot be inf", "elements were compared"),
    *("is over its limit", "the record's limit of", "growth is over its limit", "and that of the other results is"),
    *("times that of the other results", "cannot both be true", "its job has the platform"),
    *("by matrix.yaml the action", "the record owes max_abs", "the device of its job runs", "missed"),
    *("this job says that it caught", "are impossible", "injected no fault"),
)


@pytest.mark.slow
def test_the_worlds_reach_every_rule_and_every_state(tables):
    reasons, states, stale = set(), set(), set()

    def rest():
        return [rule for rule in RULES if not any(rule in reason for reason in reasons)]

    for seed in range(200):
        _, expected, found = judged(tables, seed)
        assert comparable(found) == comparable(expected), seed
        states |= {verdict[0] for verdict in expected}
        reasons |= {verdict[2] for verdict in expected}
        stale |= {verdict[3] for verdict in expected}
        if seed > 10 and not rest():
            break
    assert not rest()
    assert states == set(STATES)
    for words in (
        "in the future",
        "cannot be read",
        "names no commit",
        "changed since",
        "not in this checkout",
        "lock",
    ):
        assert any(words in reason for reason in stale), words


@pytest.fixture(scope="module")
def both_plans():
    """Return the project, its plan, and the plan as columns."""
    project = pipeline.load(ROOT / "matrix.yaml")
    plan = pipeline.plan(project, "quick")
    return project, plan, of_plan(plan)


@pytest.fixture(scope="module")
def kept(both_plans):
    """Return the kept results as both roads have them: the comparison, the plan, and a connection with verdicts."""
    project, plan, planned = both_plans
    collected = collect([ROOT / "docs" / "results"])
    records = [record for record in collected.records if is_case_record(record)]
    now = present(project.matrix, project.root, records, collected.files)
    with database() as connection:
        loaded = load(connection, [ROOT / "docs" / "results"])
        assert loaded.files == collected.files
        assert loaded.broken == collected.broken
        judge(connection, planned, now)
        yield plan, compare(plan, records, now), planned, connection


@pytest.mark.slow
def test_the_kept_results_are_judged_alike(kept):
    plan, comparison, _, connection = kept
    assert comparable(verdicts_of(connection)) == comparable(expected_of(plan, comparison))


def test_the_plan_as_columns_has_the_same_cases(both_plans):
    _, plan, planned = both_plans
    assert tuple(planned.case(number) for number in range(len(planned.cell))) == plan.cases
    table = planned.table()
    assert table.column("case").to_pylist() == [case.id for case in plan.cases]
    assert table.column("outputs").to_pylist() == [[*case.owed.outputs] for case in plan.cases]
