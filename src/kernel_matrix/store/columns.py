"""The footer of a table's file, before any of its rows is read: its version, its columns and its size."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kernel_matrix.store.names import files_of
from kernel_matrix.store.schema import OLDEST, SCHEMAS, VERSION, VERSION_KEY, WITHDRAWN
from kernel_matrix.store.validation import Bounds, RefusedError


def fault_of(table: str, path: Path, bounds: Bounds, *, reads_all: bool) -> tuple[str, int]:
    """Return why the file of a table is not taken, empty if it is, and its version; ``reads_all`` also reads its rows.

    A column that may be empty may be absent: an earlier version has fewer.
    """
    version = 0
    try:
        file = pq.ParquetFile(path)
        version = _version(table, file)
        _check_columns(table, file.schema_arrow, version)
        _check_size(table, file, bounds, packed=files_of(path).packed)
        if reads_all:
            file.read()
    except RefusedError as error:
        return str(error), version
    except Exception as error:
        text = " ".join(str(error).split())[:150]
        return f"{table}/{path.name} is no whole Parquet file ({text})", version
    return "", version


def _version(table: str, file: pq.ParquetFile) -> int:
    text = (file.metadata.metadata or {}).get(VERSION_KEY, b"")[:20].decode(errors="replace")
    version = int(text) if text.isascii() and text.isdecimal() and str(int(text)) == text else None
    if version is not None and OLDEST <= version <= VERSION:
        return version
    read = f"{VERSION} is the one that can be read" if OLDEST == VERSION else f"{OLDEST} to {VERSION} can be read"
    newer = ": a newer kernel-matrix has written it" if version is not None and version > VERSION else ""
    raise RefusedError(f"{table} has the schema version {text!r}, and {read}{newer}")


def _check_columns(table: str, given: pa.Schema, version: int) -> None:
    owed, earlier = SCHEMAS[table], {column.name: column for column in WITHDRAWN[table]}
    known = {column.name: column for column in owed} | (earlier if version < VERSION else {})
    if unknown := sorted(set(given.names) - set(known)):
        raise RefusedError(f"{table} has the column {unknown[0][:60]}, which its version {version} does not know")
    if len(set(given.names)) < len(given.names):
        raise RefusedError(f"{table} has a column twice")
    if lacking := [column.name for column in owed if not column.nullable and column.name not in given.names]:
        raise RefusedError(f"{table} lacks the column {lacking[0]}")
    for column in given:
        wanted = known[column.name].type
        if column.type != wanted and not (version < VERSION and _holds(wanted, column.type)):
            raise RefusedError(f"{table}.{column.name} is {column.type}, and not {wanted}")


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether every value of the narrow type is one of the wide type."""
    of_kinds = pa.types.is_signed_integer, pa.types.is_unsigned_integer, pa.types.is_floating
    if any(of_kind(wide) and of_kind(narrow) for of_kind in of_kinds):
        return bool(narrow.bit_width <= wide.bit_width)
    # A double has 53 bits for an integer.
    return bool(pa.types.is_float64(wide) and pa.types.is_integer(narrow) and narrow.bit_width <= 32)


def _check_size(table: str, file: pq.ParquetFile, bounds: Bounds, *, packed: bool) -> None:
    most = {"jobs": bounds.files if packed else 1, "cases": bounds.cases}.get(table, bounds.outputs)
    if file.metadata.num_rows > most:
        raise RefusedError(f"{table} has {file.metadata.num_rows} rows, and {most} is the most")
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    values = most * (bounds.properties if table == "jobs" else 100)
    if sum(group.total_byte_size for group in groups) > bounds.unpacked or any(
        group.column(column).num_values > values for group in groups for column in range(group.num_columns)
    ):
        raise RefusedError(f"{table} holds more than honest results do")
