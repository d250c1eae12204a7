"""Plan and tables -> the table of verdicts, by the steps of the folder ``steps`` in their order."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from kernel_matrix.config.model import Resource
from kernel_matrix.judge.plan_tables import enter_plan
from kernel_matrix.judge.tables import (
    enter_code_limits,
    enter_misplaced,
    enter_rules,
    enter_sentences,
    enter_stale_jobs,
    enter_wrong_samples,
)
from kernel_matrix.results.plan_columns import Planned
from kernel_matrix.results.present import Present
from kernel_matrix.store.database import Connection, rows, run
from kernel_matrix.store.records import Jobs, make_present
from kernel_matrix.store.sampled import Samples

_OF_OUTPUTS = "02_stale", "03_inputs", "04_faulty_jobs", "05_common_figures", "06_deciding", "07_limits", "08_outputs"


def judge(
    connection: Connection,
    planned: Planned,
    jobs: Jobs,
    present: Present | None,
    samples: Samples,
    limits: Sequence[Resource] = (),
    root: Path = Path(),
) -> None:
    """Make the table ``verdicts`` of the present sources: one row for each case of the plan. Make ``taken`` of it.

    Its columns are ``planned`` (the number of the case), ``state``, ``evidence``, ``code`` and ``arguments`` of the
    reason, ``reason`` as a sentence, ``stale`` (why, or empty) and ``record`` (its number, or null).
    With ``present``, say which results are stale, and take no expectation whose last day has passed then. ``samples``
    are compared with the figures of their outputs. ``limits`` hold for what code needs; their folders are in ``root``.
    """
    enter_plan(connection, planned)

    def judge_present(*last: str) -> None:
        _step(connection, "00_macros", "01_results")
        enter_stale_jobs(connection, present, jobs)
        _step(connection, *_OF_OUTPUTS)
        enter_misplaced(connection, planned, jobs)
        enter_wrong_samples(connection, samples, jobs)
        _step(connection, "09_proof")
        enter_rules(connection, planned, jobs, present.now.date() if present else None)
        if limits and enter_code_limits(connection, planned, limits, root):
            _step(connection, "10_resources")
        _step(connection, "11_expected", "12_answers", *last)

    told = [source for (source,) in rows(connection, "FROM told ORDER BY source")]
    if told:  # results of persons outside are judged by the same rules, and alone: neither counts for the other
        own = rows(connection, "SELECT source FROM sources WHERE position IS NOT NULL ORDER BY position")
        make_present(connection, told)
        judge_present("13_told_results")
        make_present(connection, [source for (source,) in own])
    judge_present(*["14_told"] if told else [])
    enter_sentences(connection)
    _step(connection, "15_verdicts")


def _step(connection: Connection, *names: str) -> None:
    for name in names:
        run(connection, files(__package__).joinpath("steps", f"{name}.sql").read_text("utf-8"))
