"""Files and records -> rows of the database -> records, for the few results that are looked at one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from kernel_matrix.store.database import CASES_OF_A_FILE, JOBS_OF_A_FILE, Connection, enter, one, rows
from kernel_matrix.store.names import JobFiles
from kernel_matrix.store.reading import source_of
from kernel_matrix.store.record import BENCH, HEAD, PROBE, Record
from kernel_matrix.store.rows import of_records
from kernel_matrix.store.schema import FIGURES

_RUNS_AT_ONCE = 125
# What judging asks of every record.
_TAKEN_OUT = """facts['inputs.sha256'], facts['artifact.kind'], facts['canary.missed'], figures['elements'],
    figures['artifact.bytes'], figures['canary.injected'], figures['canary.caught']"""
_FIGURES = ", ".join(FIGURES)


def next_source(connection: Connection) -> int:
    """Return the first number that no source has."""
    return int(one(connection, "SELECT coalesce(max(source), 0) + 1 FROM sources"))


def add_sources(connection: Connection, sources: Mapping[int, Path]) -> None:
    """Enter new sources by number."""
    schema = pa.schema({"source": pa.int32(), "path": pa.string(), "position": pa.int32()})
    columns = {"source": [*sources], "path": [*map(str, sources.values())], "position": [None] * len(sources)}
    enter(connection, "new_sources", schema, columns)
    connection.execute("INSERT INTO sources FROM new_sources").fetchall()


def make_present(connection: Connection, numbers: Sequence[int]) -> None:
    """Give these sources positions, in this order, and all others none. Only sources with a position count."""
    schema = pa.schema({"position": pa.int32(), "source": pa.int32()})
    enter(connection, "positions", schema, {"position": range(len(numbers)), "source": numbers})
    connection.execute(
        "UPDATE sources SET position = (SELECT p.position FROM positions p WHERE p.source = sources.source)"
    ).fetchall()


def insert_batches(connection: Connection, jobs: pa.Table, cases: pa.Table, outputs: pa.Table, first: int) -> None:
    """Insert Arrow tables whose column ``file`` is the number of the source less ``first``."""
    connection.register("new_jobs", jobs)
    connection.register("new_cases", cases)
    connection.register("new_outputs", outputs)
    source = f"(file + {first})::BIGINT"
    job, record = f"{source} * {JOBS_OF_A_FILE} + suite", f"{source} * {CASES_OF_A_FILE} + place"
    for question in (
        f"INSERT INTO jobs SELECT {source}, {job}, run, facts FROM new_jobs",
        f"""
        INSERT INTO cases
        SELECT {source}, {job}, {record}, "case", outcome, action, stage, message, detail, seconds, attempts, facts,
               figures, {_TAKEN_OUT}
        FROM new_cases
        """,
        f"INSERT INTO outputs SELECT {source}, {record}, row_place, output, {_FIGURES}, others FROM new_outputs",
    ):
        connection.execute(question).fetchall()
    for name in ("new_jobs", "new_cases", "new_outputs"):
        connection.unregister(name)


def insert_runs(connection: Connection, runs: Mapping[int, JobFiles]) -> None:
    """Insert the tables of runs and of packed sets, whose numbers follow one another. They must have been checked."""
    numbers = list(runs)
    for place in range(0, len(numbers), _RUNS_AT_ONCE):
        part = numbers[place : place + _RUNS_AT_ONCE]
        _insert_runs(connection, part[0], [runs[number] for number in part])


def _insert_runs(connection: Connection, first: int, runs: Sequence[JobFiles]) -> None:
    source = f"({first} + o.file_index)"
    record = f"{source} * {CASES_OF_A_FILE} + o.file_row_number"
    of_job = f"JOIN jobs j ON j.source = {source} AND j.run = o.run AND j.source >= {first}"
    figures = ", ".join(f"o.{name}" for name in FIGURES)
    jobs, cases, outputs = (f"{source_of(table, runs)} o" for table in ("jobs", "cases", "outputs"))
    for question in (
        f"INSERT INTO jobs SELECT {source}, {source} * {JOBS_OF_A_FILE} + file_row_number, run, facts FROM {jobs}",
        f"""
        INSERT INTO cases
        SELECT {source}, j.job, {record}, "case", outcome, action, stage, message, detail, seconds, attempts, o.facts,
               figures, {_TAKEN_OUT.replace("facts[", "o.facts[")}
        FROM {cases} {of_job}
        """,
        # A run has a case once: the checks of its tables see to that.
        f"""
        INSERT INTO outputs
        SELECT {source}, c.record, o.file_row_number, o.output, {figures}, o.others
        FROM {outputs} {of_job} JOIN cases c ON c.job = j.job AND c."case" = o."case" AND c.source >= {first}
        """,
    ):
        connection.execute(question).fetchall()


def delete_runs(connection: Connection, source: int, runs: Collection[str]) -> None:
    """Delete the rows of some runs of a packed set: they are in another file, too."""
    of_runs = "SELECT job FROM jobs WHERE source = $1 AND list_contains($2, run)"
    for question in (
        f"DELETE FROM outputs WHERE record IN (SELECT record FROM cases WHERE job IN ({of_runs}))",
        f"DELETE FROM cases WHERE job IN ({of_runs})",
        "DELETE FROM jobs WHERE source = $1 AND list_contains($2, run)",
    ):
        connection.execute(question, [source, sorted(runs)]).fetchall()


def add_records(connection: Connection, name: str, records: Sequence[Record]) -> None:
    """Add records that come from no file as a present source, after all others."""
    batch = of_records(records)
    jobs, cases, outputs = (
        table.append_column("file", pa.array([0] * table.num_rows, pa.int32()))
        for table in (batch.jobs, batch.cases, batch.outputs)
    )
    source = next_source(connection)
    position = one(connection, "SELECT coalesce(max(position), -1) + 1 FROM sources")
    insert_batches(connection, jobs, cases, outputs, source)
    connection.execute("INSERT INTO sources VALUES (?, ?, ?)", [source, name, position]).fetchall()


# The records of cases that a plan can have.
OF_CASES = f"""NOT starts_with("case", '{PROBE}') AND NOT starts_with("case", '{BENCH}')"""


class Jobs:
    """The facts and the run of each job, by its number; the records of a job share one object."""

    def __init__(
        self, connection: Connection, where: str = "WHERE position IS NOT NULL OR source IN (FROM told)"
    ) -> None:
        """``where`` selects the sources, by default the present ones, and those that persons have signed."""
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
    columns = ", ".join(f'"{name}"' for name in (*HEAD, "attempts", "facts", "figures"))
    question = f"SELECT record, job, {columns} FROM cases JOIN wanted USING (record)"
    return {
        number: Record(
            **dict(zip(HEAD, head, strict=True)),
            attempts=tuple(attempts),
            metrics={**figures, **of_outputs.get(number, {})},
            facts=facts,
            job=jobs[job],
            run=jobs.run(job),
        )
        for number, job, *head, attempts, facts, figures in rows(connection, question)
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
