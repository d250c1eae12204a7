"""The files that the database has, and the order in which they count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from kernel_matrix.results.columns.sql import Connection, enter


def add(connection: Connection, sources: Mapping[int, Path]) -> None:
    """Enter new sources by number."""
    schema = pa.schema({"source": pa.int32(), "path": pa.string(), "position": pa.int32()})
    columns = {"source": [*sources], "path": [*map(str, sources.values())], "position": [None] * len(sources)}
    enter(connection, "new_sources", schema, columns)
    connection.execute("INSERT INTO sources FROM new_sources").fetchall()


def make_present(connection: Connection, numbers: Sequence[int]) -> None:
    """Give the sources their positions, in this order. Only sources that have one count."""
    schema = pa.schema({"position": pa.int32(), "source": pa.int32()})
    enter(connection, "positions", schema, {"position": range(len(numbers)), "source": numbers})
    connection.execute(
        "UPDATE sources SET position = p.position FROM positions p WHERE p.source = sources.source"
    ).fetchall()
