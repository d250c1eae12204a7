"""The tables of runs as datasets of Arrow, on this machine or in an object store.

DuckDB reads them through Arrow and not by itself. It needs then no access to files, so that no query can reach any: a
COPY may hide in a WITH. It needs no extension for object stores either, which would have to be fetched first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from kernel_matrix.base.errors import UserError
from kernel_matrix.results.tables.names import TABLES, JobFiles, files_of, is_table
from kernel_matrix.results.tables.schema import SCHEMAS


def of_runs(runs: Sequence[JobFiles]) -> dict[str, Any]:
    """Return a dataset of each table of runs on this machine."""
    return _datasets([(fs.LocalFileSystem(), files) for files in runs])


def of_addresses(addresses: Sequence[str]) -> dict[str, Any]:
    """Return a dataset of each table in an object store. Columns and rows are fetched when a query needs them.

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
            if is_table(path) and (files := files_of(path)).run:
                runs.setdefault(files.name, (system, files))
    if not runs:
        raise UserError(f"{', '.join(addresses)}: there are no tables of results here.")
    return _datasets(list(runs.values()))


def _datasets(runs: Sequence[tuple[fs.FileSystem, JobFiles]]) -> dict[str, Any]:
    """Return a dataset of each table. The schema is ours, and a file that has another one fails when it is read."""
    by_system: list[tuple[fs.FileSystem, list[JobFiles]]] = []
    for system, files in runs:
        if not by_system or by_system[-1][0] != system:
            by_system.append((system, []))
        by_system[-1][1].append(files)
    datasets = {}
    for table in TABLES:
        parts = [
            ds.dataset(
                [str(one.path(table)) for one in of_system],
                schema=SCHEMAS[table].remove_metadata(),
                filesystem=system,
                format="parquet",
            )
            for system, of_system in by_system
        ]
        datasets[table] = parts[0] if len(parts) == 1 else ds.dataset(parts)
    return datasets
