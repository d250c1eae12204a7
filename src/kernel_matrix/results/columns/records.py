"""Rows of the tables -> Records, for the few results that are looked at one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernel_matrix.results.columns.schema import FIGURES
from kernel_matrix.results.columns.sql import Connection, rows
from kernel_matrix.results.record import BENCH, PROBE, Record

# The condition of kernel_matrix.results.record.is_case_record.
OF_CASES = f"""NOT starts_with("case", '{PROBE}') AND NOT starts_with("case", '{BENCH}')"""


class Jobs:
    """The facts and the run of each job, by its number; the records of a job share one object."""

    def __init__(self, connection: Connection, where: str = "WHERE position IS NOT NULL") -> None:
        """``where`` selects the sources, by default the present ones."""
        found = rows(connection, f"SELECT job, run, facts FROM jobs JOIN sources USING (source) {where}")
        self._facts: dict[int, dict[str, str]] = {job: dict(facts) for job, _, facts in found}
        self._runs: dict[int, str] = {job: run for job, run, _ in found}

    def __getitem__(self, job: int) -> dict[str, str]:
        return self._facts[job]

    def run(self, job: int) -> str:
        """Return the identity of a job's results."""
        return self._runs[job]

    @property
    def facts(self) -> Mapping[int, Mapping[str, str]]:
        """The facts of all jobs."""
        return self._facts


def records_of(
    connection: Connection, numbers: Iterable[int], jobs: Jobs, *, outputs: bool = True
) -> dict[int, Record]:
    """Return the records of these numbers; without the figures of their outputs if these are not asked for."""
    connection.execute("CREATE OR REPLACE TEMP TABLE wanted (record BIGINT)").fetchall()
    given = [*dict.fromkeys(numbers)]
    connection.execute("INSERT INTO wanted SELECT unnest($1::BIGINT[])", [given]).fetchall()
    of_outputs = _outputs(connection) if outputs else {}
    return {
        number: Record(
            case,
            outcome,
            action,
            stage,
            message,
            detail,
            seconds,
            tuple(attempts),
            {**figures, **of_outputs.get(number, {})},
            facts,
            jobs[job],
            run=jobs.run(job),
        )
        for number, job, case, outcome, action, stage, message, detail, seconds, attempts, facts, figures in rows(
            connection,
            """
            SELECT record, job, "case", outcome, action, stage, message, detail, seconds, attempts, facts, figures
            FROM cases JOIN wanted USING (record)
            """,
        )
    }


def _outputs(connection: Connection) -> dict[int, dict[str, float]]:
    metrics: dict[int, dict[str, float]] = {}
    question = f"""
        SELECT record, output, {", ".join(FIGURES)}, others FROM outputs JOIN wanted USING (record)
        ORDER BY record, place
    """
    for record, output, *figures, others in rows(connection, question):
        named = {**dict(zip(FIGURES, figures, strict=True)), **others}
        of_record = metrics.setdefault(record, {})
        of_record |= {f"{output}.{name}": value for name, value in named.items() if value is not None}
    return metrics
