"""Folders of tables -> a database in memory that has only the views, and can neither write nor read anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from kernel_matrix.base.errors import UserError
from kernel_matrix.results.foreign import printable
from kernel_matrix.results.tables import checks, datasets, names, views
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.tables.source import connect
from kernel_matrix.results.validation import Bounds

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
        tables = datasets.of_runs(runs) if local else datasets.of_addresses(stored)
        for table, dataset in tables.items():
            connection.register(f"files_of_{table}", dataset)
        for statement in views.statements({table: f"files_of_{table}" for table in tables}):
            connection.execute(statement)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield Database(connection, problems)


def folders_of(folders: Sequence[Path]) -> list[Path]:
    """Return the folders of tables below folders.

    Raises:
        UserError: a folder does not exist, or there is no table in any.
    """
    return sorted({files.folder for files in _runs(folders)})


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
    good = {files.name: files for files in reversed(runs) if files not in refused}
    problems = tuple(f"{printable(files.path('jobs'))}: refused: {reason}." for files, reason in refused.items())
    if not good:
        raise UserError(f"No table can be used. {problems[0]}")
    return sorted(good.values()), problems
