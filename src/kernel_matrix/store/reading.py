"""The text that DuckDB reads tables of runs by: files of earlier versions give the columns of the present one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kernel_matrix.store.database import literals
from kernel_matrix.store.names import JobFiles
from kernel_matrix.store.schema import ADDED, LATER, SCHEMAS, WITHDRAWN

_SQL_OF = {pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.float64(): "DOUBLE", pa.int32(): "INTEGER",
           pa.int64(): "BIGINT", pa.timestamp("us"): "TIMESTAMP"}  # fmt: skip


def source_of(table: str, runs: Sequence[JobFiles]) -> str:
    """Return what DuckDB reads a table of runs from, with the name of the file in each row.

    The column ``file_index`` is the place of the run, and ``file_row_number`` that of the row in its file. A column
    that a file lacks is null.
    """
    places = [place for place, files in enumerate(runs) if table not in ADDED or files.path(table).exists()]
    listed = ", ".join(literals([str(runs[place].path(table)) for place in places], is_glob=True))
    index = "file_index" if len(places) == len(runs) else f"{places}[file_index + 1] AS file_index"
    types = {column.name: _sql_type(column.type) for column in (*SCHEMAS[table], *WITHDRAWN[table])}
    types |= {"filename": "VARCHAR", "file_index": "UBIGINT", "file_row_number": "BIGINT"}
    empty = "SELECT " + ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in types.items()) + " WHERE false"
    rows = f"SELECT *, {index}, file_row_number FROM read_parquet([{listed}], {_OPTIONS})" if listed else empty
    return f"(SELECT {_changed(table)} FROM ({empty} UNION ALL BY NAME {rows}))"


_OPTIONS = "filename=true, hive_partitioning=false, union_by_name=true"


def _changed(table: str) -> str:
    """Return the columns of a table: figures from ``others`` where an earlier version had them there, and back."""
    if table != "outputs" or not (LATER or WITHDRAWN[table]):
        return "*"
    later = [f"coalesce(others['{name}'], {name}) AS {name}" for name in LATER]
    names = [column.name for column in WITHDRAWN[table]]
    back = ", ".join(f"CASE WHEN {name} IS NULL THEN MAP {{}} ELSE MAP {{'{name}': {name}}} END" for name in names)
    changed = ", ".join([*later, *([f"map_concat(others, {back}) AS others"] if names else [])])
    return f"* {'EXCLUDE (' + ', '.join(names) + ')' if names else ''} REPLACE ({changed})"


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return f"MAP({_SQL_OF[kind.key_type]}, {_SQL_OF[kind.item_type]})"
    return f"{_SQL_OF[kind.value_type]}[]" if pa.types.is_list(kind) else _SQL_OF[kind]
