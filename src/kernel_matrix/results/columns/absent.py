"""Enter the records that stand for planned cases without a result, and for those that are not taken as they came."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernel_matrix.results.columns.insert import add_records
from kernel_matrix.results.columns.records import OF_CASES, Jobs
from kernel_matrix.results.columns.sql import Connection, rows
from kernel_matrix.results.record import Record


def enter_absences(connection: Connection, checked: Callable[[Sequence[Record]], list[Record]]) -> None:
    """Replace the present records by those that ``checked`` makes of them, and add the records that it adds.

    ``checked`` is :func:`kernel_matrix.machines.absences.with_absences`: it takes the records without their figures,
    keeps their order, and puts others in the place of some.
    """
    jobs = Jobs(connection)
    question = f"""
        SELECT record, job, "case", outcome, action FROM cases JOIN sources USING (source)
        WHERE position IS NOT NULL AND {OF_CASES} ORDER BY position, record
    """
    found = rows(connection, question)
    given = [Record(case, outcome, action, job=jobs[job]) for _, job, case, outcome, action in found]
    made = checked(given)
    for (number, *_), before, after in zip(found, given, made, strict=False):
        if after is not before:
            _replace(connection, number, after)
    add_records(connection, "cases without a result", made[len(given) :])


def _replace(connection: Connection, number: int, record: Record) -> None:
    connection.execute("DELETE FROM outputs WHERE record = ?", [number]).fetchall()
    question = """
        UPDATE cases SET outcome = ?, message = ?, action = '', stage = '', detail = '', seconds = 0, attempts = [],
            facts = MAP {}, figures = MAP {}, inputs = NULL, kind = NULL, missed = NULL, elements = NULL, bytes = NULL,
            injected = NULL, caught = NULL
        WHERE record = ?
    """
    connection.execute(question, [record.outcome, record.message, number]).fetchall()
