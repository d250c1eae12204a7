"""The DuckDB database that results are held in: its tables, and a way to open it that keeps to a limit of memory."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

from kernel_matrix.results.columns.schema import FIGURES

MEMORY = "450MB"  # of DuckDB; the objects of Python and the processes that read XML come on top
THREADS = 2
# DuckDB keeps the memory of its blocks, and does not give it back to the system
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
    -- The files. Those of the present run have a position: the order of their records among equals.
    CREATE TABLE sources (
        source INTEGER, path VARCHAR, position INTEGER
    );
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
            "threads": THREADS,
            "temp_directory": str(folder),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(str(folder / "results.duckdb"), config=settings) as connection:
            connection.execute(_TABLES)
            connection.execute(_TEMPORARY)
            yield connection
