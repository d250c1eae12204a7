"""The database of results: its tables, how it is opened, and how it is asked."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kernel_matrix.store.occupancy import occupancy
from kernel_matrix.store.schema import FIGURES

Connection = duckdb.DuckDBPyConnection


def rows(connection: Connection, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of an answer."""
    return connection.execute(question, list(values)).fetchall()


def one(connection: Connection, question: str) -> Any:
    """Return the only value of an answer."""
    ((value,),) = rows(connection, question)
    return value


_PARSED: dict[str, list[duckdb.Statement]] = {}


def run(connection: Connection, script: str) -> None:
    """Run a script, one of few: a process parses each once, which takes a fifth of the time that few results need."""
    if script not in _PARSED:
        _PARSED[script] = connection.extract_statements(script)
    for statement in _PARSED[script]:
        connection.execute(statement).fetchall()


def temporary(connection: Connection, name: str, question: str) -> None:
    """Keep an answer as a table of this connection."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {question}").fetchall()


def enter(connection: Connection, name: str, schema: pa.Schema, columns: Mapping[str, Any]) -> None:
    """Keep columns of Python values, or of NumPy's, as a table of this connection."""
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    table = pa.Table.from_arrays(arrays, schema=schema)
    connection.register("entered", table)
    temporary(connection, name, "SELECT * FROM entered")
    connection.unregister("entered")


MEMORY = "450MB"  # of DuckDB; the objects of Python and the processes that read XML come on top
THREADS = 2  # where there is much to read: a second thread makes a question of few results a fifth slower
# DuckDB keeps the memory of its blocks, and does not give it back to the system
# after each question: the system would hand it out anew, and clear it, for the next. What is not in the file yet at the
# end is not written. A list of constants (IN) stays a comparison: to plan it as a join takes a third of a small report.
_TEMPORARY = f"""
    SET block_allocator_memory = '{MEMORY}';
    SET allocator_flush_threshold = '100GB';
    SET allocator_bulk_deallocation_flush_threshold = '100GB';
    PRAGMA disable_checkpoint_on_shutdown;
    SET disabled_optimizers = 'in_clause';
"""
# The key of a job and of a case: the number of the file, and the place in it.
JOBS_OF_A_FILE, CASES_OF_A_FILE = 2**20, 2**32

_TABLES = f"""
    -- The files. Those of the present run have a position: the order of their records among equals.
    CREATE TABLE sources (
        source INTEGER, path VARCHAR, position INTEGER
    );
    CREATE TABLE told (source INTEGER);  -- of persons outside the project: without a position, they count nowhere
    CREATE TABLE jobs (source INTEGER, job BIGINT, run VARCHAR, facts MAP(VARCHAR, VARCHAR));
    CREATE TABLE cases (
        source INTEGER, job BIGINT, record BIGINT, "case" VARCHAR, outcome VARCHAR, action VARCHAR, stage VARCHAR,
        message VARCHAR, detail VARCHAR, seconds DOUBLE, attempts VARCHAR[],
        facts MAP(VARCHAR, VARCHAR), figures MAP(VARCHAR, DOUBLE),
        -- What judging and summarising ask of every record, taken out of the maps.
        inputs VARCHAR, kind VARCHAR, missed VARCHAR, elements DOUBLE, bytes DOUBLE, injected DOUBLE, caught DOUBLE
    );
    CREATE TABLE outputs (
        source INTEGER, record BIGINT, place INTEGER, output VARCHAR,
        {", ".join(f"{name} DOUBLE" for name in FIGURES)}, others MAP(VARCHAR, DOUBLE)
    );
"""


@contextlib.contextmanager
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an empty database in a temporary file."""
    with tempfile.TemporaryDirectory(prefix="kernel-matrix-columns-") as name:
        folder = Path(name)
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "threads": 1,
            "temp_directory": str(folder),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(str(folder / "results.duckdb"), config=settings) as connection:
            macro = f"CREATE MACRO occupancy_of(target, figures) AS ({occupancy('target', 'figures')})"
            run(connection, f"{_TABLES} {_TEMPORARY} {macro}")
            yield connection


_MEMORY = "2GB"


def connect() -> duckdb.DuckDBPyConnection:
    """Return a database in memory that cannot load extensions and writes no temporary files."""
    return duckdb.connect(
        ":memory:",
        config={
            "memory_limit": _MEMORY,
            "temp_directory": "",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",  # else the name of a Python variable is the name of a table
        },
    )


def literals(names: Sequence[str], *, is_glob: bool = False) -> list[str]:
    """Return texts as SQL writes them; of a glob, its special characters stand for themselves."""
    plain = [re.sub(r"([\[*?])", r"[\1]", name) if is_glob else name for name in names]
    return ["'" + name.replace("'", "''") + "'" for name in plain]
