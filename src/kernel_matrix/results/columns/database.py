"""The DuckDB database that results are held in: its tables, and a way to open it that keeps to a limit of memory."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import duckdb

from kernel_matrix.results.columns import kept
from kernel_matrix.results.columns.schema import FIGURES
from kernel_matrix.results.validation import Bounds

VERSION = 5  # of the tables: a database of another version is made anew
MEMORY = "450MB"  # of DuckDB; the objects of Python and the processes that read XML come on top
THREADS = 2
# Of a database that nobody opens again. DuckDB keeps the memory of its blocks, and does not give it back to the system
# after each question: the system would hand it out anew, and clear it, for the next. What is not in the file yet at the
# end is not written.
_TEMPORARY = f"""
    SET block_allocator_memory = '{MEMORY}';
    SET allocator_flush_threshold = '100GB';
    SET allocator_bulk_deallocation_flush_threshold = '100GB';
    PRAGMA disable_checkpoint_on_shutdown;
"""
# The key of a job and of a case: the number of the file, and the place in it.
JOBS_OF_A_FILE, CASES_OF_A_FILE = 2**20, 2**32

_TABLES = f"""
    CREATE TABLE made_with (version INTEGER, bounds VARCHAR);
    -- The files. Those of the present run have a position: the order of their records among equals.
    CREATE TABLE sources (
        source INTEGER, path VARCHAR, stamp VARCHAR, sha256 VARCHAR, position INTEGER
    );
    -- The runs whose content was held to the digest in their name.
    CREATE TABLE held (source INTEGER);
    CREATE TABLE jobs (source INTEGER, job BIGINT, facts MAP(VARCHAR, VARCHAR));
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
    -- The files of the page's cells that the last report wrote, and a digest of what each was made from.
    CREATE TABLE pages (
        number INTEGER, folder VARCHAR, made_with VARCHAR, cells VARCHAR[], digest VARCHAR, stamp VARCHAR
    );
    {kept.TABLES}
"""


@contextlib.contextmanager
def database(path: Path | None, bounds: Bounds) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database in a file that is kept for the next run; in a temporary one if ``path`` is None.

    A file that another process has open is left to it, and a temporary one is used.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernel-matrix-columns-")))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        connection = stack.enter_context(_opened(path or folder / "results.duckdb", folder, bounds))
        if path is None:
            connection.execute(_TEMPORARY)
        yield connection


def _opened(path: Path, folder: Path, bounds: Bounds) -> duckdb.DuckDBPyConnection:
    """Return the database of a file; one of another version, or that is broken, is made anew."""
    made_with = (VERSION, repr(sorted(asdict(bounds).items())))
    if path.exists():
        try:
            connection = _connected(path, folder)
            if connection.execute("SELECT version, bounds FROM made_with").fetchall() == [made_with]:
                return connection
            connection.close()
        except duckdb.IOException as error:
            if "lock" in str(error):
                return _opened(folder / "results.duckdb", folder, bounds)
        except duckdb.Error:
            pass
        for file in (path, path.with_name(f"{path.name}.wal")):
            file.unlink(missing_ok=True)
    connection = _connected(path, folder)
    connection.execute(_TABLES)
    connection.execute("INSERT INTO made_with VALUES (?, ?)", made_with)
    return connection


def _connected(path: Path, folder: Path) -> duckdb.DuckDBPyConnection:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "threads": THREADS,
        "temp_directory": str(folder),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(str(path), config=settings)
