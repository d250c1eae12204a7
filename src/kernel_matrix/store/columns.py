"""The footer of a table's file, before any of its rows is read: its version, its columns and its size."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from kernel_matrix.store.schema import SCHEMAS, VERSION, VERSION_KEY
from kernel_matrix.store.validation import Bounds, RefusedError


def fault_of(table: str, path: Path, bounds: Bounds, *, reads_all: bool) -> str:
    """Return why the file of a table is not taken, empty if it is; ``reads_all`` also reads its rows."""
    try:
        file = pq.ParquetFile(path)
        _check(table, file, bounds)
        if reads_all:
            file.read()
    except RefusedError as error:
        return str(error)
    except Exception as error:
        text = " ".join(str(error).split())[:150]
        return f"{table}/{path.name} is no whole Parquet file ({text})"
    return ""


def _check(table: str, file: pq.ParquetFile, bounds: Bounds) -> None:
    version = (file.metadata.metadata or {}).get(VERSION_KEY, b"")
    if version != str(VERSION).encode():
        text = version[:20].decode(errors="replace")
        raise RefusedError(f"{table} has the schema version {text!r}, and {VERSION} is the one that can be read")
    owed, given = SCHEMAS[table], file.schema_arrow
    if given.names != owed.names:
        differing = sorted(set(given.names) ^ set(owed.names))[:3]
        raise RefusedError(f"{table} has other columns than its version says ({', '.join(differing) or 'the order'})")
    for column in owed:
        if given.field(column.name).type != column.type:
            raise RefusedError(f"{table}.{column.name} is {given.field(column.name).type}, and not {column.type}")
    most = {"jobs": 1, "cases": bounds.cases}.get(table, bounds.outputs)
    if file.metadata.num_rows > most:
        raise RefusedError(f"{table} has {file.metadata.num_rows} rows, and {most} is the most")
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    values = most * (bounds.properties if table == "jobs" else 100)
    if sum(group.total_byte_size for group in groups) > bounds.unpacked or any(
        group.column(column).num_values > values for group in groups for column in range(group.num_columns)
    ):
        raise RefusedError(f"{table} holds more than honest results do")
