"""Run SQL in DuckDB and take the whole answer: a connection that still has rows to give refuses the next question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

Connection = duckdb.DuckDBPyConnection


def rows(connection: Connection, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of an answer."""
    return connection.execute(question, list(values)).fetchall()


def one(connection: Connection, question: str) -> Any:
    """Return the only value of an answer."""
    ((value,),) = rows(connection, question)
    return value


def temporary(connection: Connection, name: str, question: str) -> None:
    """Keep an answer as a table of this connection."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {question}").fetchall()


def view(connection: Connection, name: str, question: str) -> None:
    """Give a question a name, for answers that are asked for once or twice and are large."""
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {question}").fetchall()


def enter(connection: Connection, name: str, schema: pa.Schema, columns: Mapping[str, Any]) -> None:
    """Keep columns of Python values, or of NumPy's, as a table of this connection."""
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    table = pa.Table.from_arrays(arrays, schema=schema)
    connection.register("entered", table)
    temporary(connection, name, "SELECT * FROM entered")
    connection.unregister("entered")
