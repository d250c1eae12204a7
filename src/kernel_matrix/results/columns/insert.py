"""Rows of files -> rows of the database, from Arrow tables or from the Parquet files of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from kernel_matrix.results.columns import batch
from kernel_matrix.results.columns.database import CASES_OF_A_FILE, JOBS_OF_A_FILE
from kernel_matrix.results.columns.schema import FIGURES
from kernel_matrix.results.columns.sql import Connection, enter, one
from kernel_matrix.results.record import Record
from kernel_matrix.results.tables.names import JobFiles

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
    """Give the sources their positions, in this order. Only sources that have one count."""
    schema = pa.schema({"position": pa.int32(), "source": pa.int32()})
    enter(connection, "positions", schema, {"position": range(len(numbers)), "source": numbers})
    connection.execute(
        "UPDATE sources SET position = p.position FROM positions p WHERE p.source = sources.source"
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
    """Insert the tables of runs, by the number of their source. They must have been checked."""
    numbers = list(runs)
    for place in range(0, len(numbers), _RUNS_AT_ONCE):
        _insert_runs(connection, {number: runs[number] for number in numbers[place : place + _RUNS_AT_ONCE]})


def _insert_runs(connection: Connection, runs: Mapping[int, JobFiles]) -> None:
    schema = pa.schema({"source": pa.int64(), **dict.fromkeys(("jobs", "cases", "outputs"), pa.string())})
    paths = {table: [str(files.path(table)) for files in runs.values()] for table in ("jobs", "cases", "outputs")}
    enter(connection, "new_runs", schema, {"source": list(runs), **paths})
    record = f"source * {CASES_OF_A_FILE} + file_row_number"
    figures = ", ".join(f"o.{name}" for name in FIGURES)
    for table, question in (
        ("jobs", f"INSERT INTO jobs SELECT source, source * {JOBS_OF_A_FILE}, run, facts FROM {_ROWS}"),
        (
            "cases",
            f"""
            INSERT INTO cases
            SELECT source, source * {JOBS_OF_A_FILE}, {record}, "case", outcome, action, stage, message, detail,
                   seconds, attempts, facts, figures, {_TAKEN_OUT}
            FROM {_ROWS}
            """,
        ),
        (  # a run has a case once: the checks of its tables see to that
            "outputs",
            f"""
            INSERT INTO outputs
            SELECT n.source, c.record, o.file_row_number, o.output, {figures}, o.others
            FROM {_ROWS} JOIN cases c ON c.source = n.source AND c."case" = o."case" AND c.source >= {min(runs)}
            """,
        ),
    ):
        connection.execute(question.replace("TABLE", table), [paths[table]]).fetchall()


_ROWS = """read_parquet(?, filename=true, file_row_number=true, hive_partitioning=false) o
    JOIN new_runs n ON n.TABLE = o.filename"""


def add_records(connection: Connection, name: str, records: Sequence[Record]) -> None:
    """Add records that come from no file as a present source, after all others."""
    of_records = batch.of_records(records)
    jobs, cases, outputs = (
        table.append_column("file", pa.array([0] * table.num_rows, pa.int32()))
        for table in (of_records.jobs, of_records.cases, of_records.outputs)
    )
    source = next_source(connection)
    position = one(connection, "SELECT coalesce(max(position), -1) + 1 FROM sources")
    insert_batches(connection, jobs, cases, outputs, source)
    connection.execute("INSERT INTO sources VALUES (?, ?, ?)", [source, name, position]).fetchall()
