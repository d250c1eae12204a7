"""Ask the tables of results in SQL: a database in memory that has only the views, and can reach nothing else."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.words import counted
from kernel_matrix.store import checks, names, views
from kernel_matrix.store.database import connect, literals
from kernel_matrix.store.names import TABLES, JobFiles, files_of, is_table, printable
from kernel_matrix.store.schema import ADDED, SCHEMAS
from kernel_matrix.store.validation import Bounds


@dataclass(frozen=True)
class _Part:
    """A dataset of each table, and the runs in it that do not count."""

    tables: dict[str, ds.Dataset]
    without: list[str]


def of_runs(runs: Sequence[JobFiles]) -> list[_Part]:
    """Return datasets of the tables of runs on this machine."""
    return _parts_of([(fs.LocalFileSystem(), files) for files in runs])


def of_addresses(addresses: Sequence[str]) -> list[_Part]:
    """Return datasets of the tables in an object store. Columns and rows are fetched when a query needs them.

    Raises:
        UserError: the store cannot be reached, an address cannot be used, or there is no table.
    """
    runs: dict[str, tuple[fs.FileSystem, JobFiles]] = {}
    for address in addresses:
        try:
            system, folder = fs.FileSystem.from_uri(address)
            listed = system.get_file_info(fs.FileSelector(folder, recursive=True))
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{address}: it cannot be read: {' '.join(str(error).split())[:300]}") from None
        for path in (Path(entry.path) for entry in listed if entry.is_file):
            if is_table(path) and ((files := files_of(path)).run or files.packed):
                runs.setdefault(files.name or str(files.folder), (system, files))
    if not runs:
        raise UserError(f"{', '.join(addresses)}: there are no tables of results here.")
    return _parts_of(list(runs.values()))


def _parts_of(runs: Sequence[tuple[fs.FileSystem, JobFiles]]) -> list[_Part]:
    """Return datasets of all tables. The schema is ours, and a file that has another one fails when it is read.

    A run that is in several files counts once.
    """
    twice = _runs_before(runs)
    groups: list[tuple[fs.FileSystem, frozenset[str], list[JobFiles]]] = []
    for system, files in runs:
        if files.run in twice[files]:
            continue
        if not groups or groups[-1][:2] != (system, twice[files]):
            groups.append((system, twice[files], []))
        groups[-1][2].append(files)
    return [
        _Part({table: _dataset(table, system, of_group) for table in TABLES}, sorted(without))
        for system, without, of_group in groups
    ]


def _dataset(table: str, system: fs.FileSystem, of_group: Sequence[JobFiles]) -> ds.Dataset:
    paths = [str(one.path(table)) for one in of_group]
    if table in ADDED:
        paths = [info.path for info in system.get_file_info(paths) if info.is_file]
    return ds.dataset(paths, schema=SCHEMAS[table].remove_metadata(), filesystem=system, format="parquet")


def _runs_before(runs: Sequence[tuple[fs.FileSystem, JobFiles]]) -> dict[JobFiles, frozenset[str]]:
    """Return the runs of each packed set, and the run of other files, that are in a packed set before them."""
    known: set[str] = set()
    twice: dict[JobFiles, frozenset[str]] = {}
    for system, files in sorted(runs, key=lambda one: not one[1].packed):
        of_files = {files.run}
        if files.packed:
            table = pq.read_table(str(files.path("jobs")), columns=["run"], filesystem=system, partitioning=None)
            of_files = set(table.column("run").to_pylist())
        twice[files] = frozenset(known & of_files)
        known |= of_files if files.packed else set()
    return twice


# A folder of tables may hold the runs of years. Each file is still bounded, and DuckDB's memory is.
HISTORY = Bounds(files=1_000_000, all_bytes=2**40)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://")


@dataclass(frozen=True)
class Database:
    """A connection with the views, and a sentence for each run that was left out."""

    connection: duckdb.DuckDBPyConnection
    problems: tuple[str, ...] = ()


@contextmanager
def opened(folders: Sequence[str | Path], *, rows: bool = True) -> Iterator[Database]:
    """Open the tables below folders, or in object stores (``s3://``, ``gs://``). A run that is there twice counts once.

    The files of this machine are checked first, with their ``rows`` or without, and those that are refused are left
    out. Of the files in an object store a query reads what it needs, and they are not checked before.

    Raises:
        UserError: a folder does not exist, or there is no table in any.
    """
    stored = [str(folder) for folder in folders if _ADDRESS.match(str(folder))]
    local = [Path(folder) for folder in folders if not _ADDRESS.match(str(folder))]
    if stored and local:
        raise UserError("Name folders of this machine or of an object store, not both: copy one to the other.")
    with connect() as connection:
        runs, problems = _checked(local, rows=rows) if local else ([], ())
        parts = of_runs(runs) if local else of_addresses(stored)
        sources: dict[str, list[str]] = {table: [] for table in TABLES}
        for number, part in enumerate(parts):
            for table, dataset in part.tables.items():
                connection.register(f"files_{number}_of_{table}", dataset)
                without = f" WHERE run NOT IN ({', '.join(literals(part.without))})" if part.without else ""
                sources[table].append(f"SELECT * FROM files_{number}_of_{table}{without}")
        for statement in views.statements({table: f"({' UNION ALL '.join(of)})" for table, of in sources.items()}):
            connection.execute(statement)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield Database(connection, problems)


def _runs(folders: Sequence[Path]) -> list[JobFiles]:
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: there is no such folder. Name one with results, such as build/results.")
    runs = [files for folder in folders for files in names.find(folder.resolve())]
    if not runs:
        listed = ", ".join(str(folder) for folder in folders)
        raise UserError(f"{listed}: there are no tables of results here. A run writes them: `kernel-matrix matrix`")
    return list(dict.fromkeys(runs))


def _checked(folders: Sequence[Path], *, rows: bool) -> tuple[list[JobFiles], tuple[str, ...]]:
    """Return the runs that can be used, each once, and a sentence for each that cannot.

    Raises:
        UserError: a folder does not exist, or no table can be used.
    """
    runs = _runs(folders)
    refused = checks.check(runs, HISTORY, rows=rows)
    good = {files.name or str(files.folder): files for files in reversed(runs) if files not in refused}
    problems = tuple(f"{printable(files.path('jobs'))}: refused: {reason}." for files, reason in refused.items())
    if not good:
        raise UserError(f"No table can be used. {problems[0]}")
    return sorted(good.values()), problems


_WIDEST = 60  # characters of a column in the table for people
_NUMBERS = (int, float)


@dataclass(frozen=True)
class Answer:
    """The columns and rows of an answer, and a sentence for each run that was left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    problems: tuple[str, ...] = ()


def ask(query: str, folders: Sequence[str | Path]) -> Answer:
    """Return the answer to one SELECT over the tables of the folders.

    Raises:
        UserError: a folder or the query cannot be used, or the query does something else than select.
    """
    with opened(folders, rows=False) as database:
        try:
            statements = database.connection.extract_statements(query)
            if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                raise UserError("The query must be one SELECT: nothing else can be done with results.")
            result = database.connection.execute(query)
            columns = tuple(str(column[0]) for column in result.description or ())
            return Answer(columns, tuple(result.fetchall()), database.problems)
        except (duckdb.Error, OSError, UnicodeDecodeError) as error:
            raise UserError(f"The query cannot be answered: {_in_short(error)}") from None


def statements(folders: Sequence[Path]) -> str:
    """Return the SQL that makes the views over all tables of the folders in DuckDB or MotherDuck.

    Raises:
        UserError: a folder does not exist, or has no tables.
    """
    found = sorted({(files.folder, files.packed) for files in _runs(folders)})
    sources = {}
    for table in TABLES:
        patterns = [f"{folder}/{table}{'' if packed else '/*'}.parquet" for folder, packed in found]
        sources[table] = f"read_parquet([{', '.join(literals(patterns))}], hive_partitioning=false, union_by_name=true)"
    return "".join(f"{statement};\n\n" for statement in views.statements(sources))


def in_lines(answer: Answer) -> list[str]:
    """Return the answer as a table for people. Long texts are cut; ``--csv`` and ``--json`` have all of them."""
    cells = [[_shown(value) for value in row] for row in answer.rows]
    widths = [max(len(name), *(len(row[place]) for row in cells)) if cells else len(name)
              for place, name in enumerate(answer.columns)]  # fmt: skip
    right = [all(isinstance(row[place], _NUMBERS) or row[place] is None for row in answer.rows)
             for place in range(len(widths))]  # fmt: skip
    lines = [answer.columns, tuple("-" * width for width in widths), *cells]
    text = [
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    return [*text, f"({counted(len(answer.rows), 'row')})"]


def in_csv(answer: Answer) -> str:
    """Return the answer as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_plain(value) for value in row] for row in answer.rows)
    return file.getvalue()


def in_json(answer: Answer) -> str:
    """Return the answer as a JSON list of objects. NaN and infinite numbers are texts: JSON has none."""
    rows = [{name: _plain(value) for name, value in zip(answer.columns, row, strict=True)} for row in answer.rows]
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(_plain(value))
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | bool | None) else str(value)


def _in_short(error: Exception) -> str:
    """Return the first line of an error of the database, and its guess of what was meant."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    guesses = [line for line in lines[1:] if line.startswith(("Did you mean", "Candidate bindings"))]
    return ". ".join([*lines[:1], *guesses[:1]])[:600]
