"""The steps of the judge and the audit's plain judge, which share nothing, give the same verdicts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from checkouts import ANOTHER
from common import ROOT
from worlds import RESOURCES, as_audited, world

from kernel_matrix import judging, pipeline
from kernel_matrix.audit import _present
from kernel_matrix.audit.plan import planned as plan_by_loops
from kernel_matrix.audit.raw import read
from kernel_matrix.audit.states import Judge, evidence_of
from kernel_matrix.judge.verdicts import judge
from kernel_matrix.results.plan_columns import of_plan
from kernel_matrix.results.states import STATES
from kernel_matrix.store.database import database, rows
from kernel_matrix.store.records import Jobs, insert_batches, records_of
from kernel_matrix.store.rows import of_records
from kernel_matrix.store.sampled import Samples
from kernel_matrix.store.validation import Bounds


@pytest.fixture(scope="module")
def tables():
    with database() as connection:
        yield connection


def verdicts_of(connection):
    """Return the verdicts in the order of the plan, each with its record."""
    found = rows(connection, "SELECT state, evidence, reason, stale, record FROM verdicts ORDER BY planned")
    records = records_of(connection, [number for *_, number in found if number is not None], Jobs(connection))
    return [(*verdict, records[number] if number is not None else None) for *verdict, number in found]


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


def comparable(record):
    """Return a record as text, with its run: a NaN is not equal to itself, and the order of figures is free.

    Its samples are not in the database.
    """
    if record is None:
        return "no record"
    record = replace(record, samples={})
    parts = {name: sorted(getattr(record, name).items()) for name in ("metrics", "facts", "job")}
    return repr({**vars(record), **parts})


def judged(connection, seeds):
    """Judge worlds at random by the steps, and hold each verdict to the audit's judge.

    Each world has an operator of its own, so that the steps judge many in the time of one.
    """
    worlds = [world(Random(seed), f"op{seed}") for seed in seeds]
    found = []
    for has_presence in (True, False):
        group = [(plan, files, presence) for plan, files, presence in worlds if bool(presence) == has_presence]
        whole = replace(group[0][0], jobs=tuple(job for plan, _, _ in group for job in plan.jobs))
        enter(connection, [file for _, files, _ in group for file in files])
        samples = Samples(Bounds())
        samples.add([record for _, files, _ in group for file in files for record in file])
        columns = of_plan(whole)
        judge(connection, columns, Jobs(connection), group[0][2], samples, RESOURCES, ROOT)
        of_steps = dict(zip((case.id for case in whole.cases), verdicts_of(connection), strict=True))
        for one in group:
            same_as_audited(*one, of_steps)
        found += of_steps.values()
    return found


def same_as_audited(plan, files, presence, of_steps):
    """Hold the verdicts of one world to the audit's judge."""
    audited, of_raws = as_audited(plan, files, presence)
    for case in plan.cases:
        state, evidence, reason, stale, record = of_steps[case.id]
        answers = [*answers_of(audited, of_raws, case.id)]
        assert (state, evidence, bool(stale), comparable(record)) in answers, (case.id, reason)


def answers_of(audited, of_raws, case):
    """Yield each verdict that the audit allows: more than one only where equal results decide."""
    for state, raw in audited.allowed(case):
        if state == "unavailable" and not audited.raws[case]:
            continue  # that no machine was available is known without a result, but never in a world
        is_stale = raw is not None and not audited.is_fresh(case, raw)
        yield (state, evidence_of(state, raw) if raw else "planned", is_stale, comparable(raw and of_raws[id(raw)]))


AT_NIGHT = [pytest.param(seeds, marks=pytest.mark.nightly) for seeds in (range(99), range(136, 236))]
# A part of the reason of each rule, or its state.
RULES = (
    *("no result came", "the machine excluded it", "no such device", "passed after", "It is not wanted here."),
    *("Tried all the same, it passes", "Tried all the same: fail", "it passes, and is expected to fail", "is over)"),
    *("refused: other inputs (aaaaaaaaaaaaaaaa) than as many", "than most results", "compared nothing"),
    *("holds no artifact", "does not say that anything ran", "the record owes the figures of", "made by an earlier"),
    *("which is no output of this case", "cannot be nan", "cannot be inf", "elements were compared"),
    *("is over its limit", "the record's limit of", "growth is over its limit", "and the other results have"),
    *("times as large as in the other results", "cannot both be true", "its job has the platform"),
    *("by matrix.yaml the action", "the record owes max_abs", "the device of its job runs", "missed"),
    *("this job says that it caught", "are impossible", "injected no fault", ": the other results have it"),
    *("its samples and its max_abs cannot", "its samples are further from the other results"),
    *("the code needs 40 registers", "the code needs 4 spills"),
)


@pytest.mark.parametrize("seeds", [range(99, 136), *AT_NIGHT], ids=str)  # few worlds that reach all
def test_the_audit_allows_every_verdict_of_worlds_that_reach_every_rule_and_every_state(tables, seeds):
    found = judged(tables, seeds)
    states, reasons, stale = ({verdict[part] for verdict in found} for part in (0, 2, 3))
    assert not [rule for rule in RULES if not any(rule in reason for reason in reasons)]
    assert states == set(STATES) - {"told"}  # of results of people outside: test_send.py has these
    for words in (
        "in the future",
        "cannot be read",
        ANOTHER,
        "lock",
    ):
        assert any(words in reason for reason in stale), words


@pytest.fixture(scope="module")
def project():
    return pipeline.load(ROOT / "matrix.yaml")


@pytest.mark.nightly
def test_the_audit_allows_every_verdict_of_the_kept_results(project):
    plan = pipeline.plan(project, "quick")
    content = {**project.matrix.model_dump(), "accuracy": project.matrix.accuracy.limits()}
    with judging.judged(project, plan, [ROOT / "docs" / "results"]) as results:
        files = list(results.loaded.files)
        audited = Judge(content, plan_by_loops(content, "quick"), read(files), _present(project.matrix, ROOT))
        found = results.verdicts()
        assert results.loaded.broken == ()
        assert results.results > 5000
    assert len(found) == len(audited.cases)
    assert {verdict.state for verdict in found} > {"pass", "compiled", "lowered", "known", "unavailable"}
    for verdict in found:
        allowed = [
            (state, evidence_of(state, raw) if raw else "planned") for state, raw in audited.allowed(verdict.case.id)
        ]
        assert (verdict.state, verdict.evidence) in allowed, verdict.case.id


def test_the_plan_as_columns_has_the_same_cases(project):
    plan = pipeline.plan(project, "quick")
    planned = of_plan(plan)
    assert tuple(planned.case(number) for number in range(len(planned.cell))) == plan.cases
