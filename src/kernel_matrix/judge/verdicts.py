"""Plan and tables -> the table of verdicts, by the steps of the folder ``steps`` in their order."""

from __future__ import annotations

from importlib.resources import files

from kernel_matrix.judge.plan_tables import enter_plan
from kernel_matrix.judge.sampled import enter_wrong_samples
from kernel_matrix.judge.tables import (
    enter_misplaced,
    enter_rules,
    enter_sentences,
    enter_stale_jobs,
    enter_told_sentences,
)
from kernel_matrix.results.planned import Planned
from kernel_matrix.results.present import Present
from kernel_matrix.store.database import Connection, one
from kernel_matrix.store.records import Jobs, exchange_told
from kernel_matrix.store.sampled import Samples


def judge(connection: Connection, planned: Planned, present: Present | None, samples: Samples) -> None:
    """Make the table ``verdicts`` of the present sources: one row for each case of the plan. Make ``taken`` of it.

    Its columns are ``planned`` (the number of the case), ``state``, ``evidence``, the ``code`` of the reason with its
    ``arguments``, the ``reason`` as a sentence, ``stale`` (the reason, or empty) and ``record`` (the number of the
    deciding record, or null). With ``present``, say which results are stale, and take no expectation whose last day has
    passed then. ``samples`` are held to the figures of their outputs.
    """
    jobs = Jobs(connection)
    enter_plan(connection, planned)
    is_told = bool(one(connection, "SELECT count(*) FROM told"))
    if is_told:  # by the same rules, and without a look at the project's own results
        exchange_told(connection)
        _judge(connection, planned, present, samples, jobs)
        _step(connection, "13_told")
        exchange_told(connection)
    _judge(connection, planned, present, samples, jobs)
    if is_told:
        enter_told_sentences(connection)
        _step(connection, "14_heard")


def _judge(connection: Connection, planned: Planned, present: Present | None, samples: Samples, jobs: Jobs) -> None:
    _step(connection, "00_words", "01_results")
    enter_stale_jobs(connection, present, jobs)
    _step(connection, "02_stale", "03_inputs", "04_faulty_jobs", "05_common_figures", "06_deciding")
    _step(connection, "07_limits", "08_outputs")
    enter_misplaced(connection, planned, jobs)
    enter_wrong_samples(connection, samples, jobs)
    _step(connection, "09_proof")
    enter_rules(connection, planned, jobs, present.now.date() if present else None)
    _step(connection, "10_expected", "11_verdicts")
    enter_sentences(connection)
    _step(connection, "12_records")


def _step(connection: Connection, *names: str) -> None:
    for name in names:
        connection.execute(files(__package__).joinpath("steps", f"{name}.sql").read_text("utf-8")).fetchall()
