"""Result folders -> Records, for the few commands that look at every result as an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.results.record import Record
from kernel_matrix.results.validation import Asked, Bounds


@dataclass(frozen=True)
class Collected:
    """Hold the records of the files that count, and all that ``Loaded`` says of the files.

    ``foreign`` has the records that another tool has written, by file.
    """

    files: tuple[Path, ...]
    records: tuple[Record, ...]
    broken: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    foreign: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    paths: tuple[Path, ...] = ()


def collect(
    folders: Sequence[Path], asked: Mapping[str, Asked] | None = None, bounds: Bounds | None = None
) -> Collected:
    """Read all results below the folders, or the files themselves.

    With ``asked``, by job, a file is also compared with what its job was asked for.

    Raises:
        UserError: a folder does not exist.
    """
    from kernel_matrix.results.columns import database, load  # DuckDB and pyarrow take long to import
    from kernel_matrix.results.columns.records import Jobs
    from kernel_matrix.results.columns.sql import rows

    with database.database() as connection:
        loaded = load.load(connection, folders, asked, bounds)
        question = """
            SELECT record FROM cases JOIN sources USING (source) WHERE position IS NOT NULL ORDER BY position, record
        """
        numbers = [number for (number,) in rows(connection, question)]
        records = tuple(loaded.records(connection, numbers, Jobs(connection)))
        foreign = load.foreign(connection)
        return Collected(loaded.files, records, loaded.broken, loaded.refused, foreign, loaded.paths)
