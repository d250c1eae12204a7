"""The files that the database has: of equal results the first count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from kernel_matrix.results.columns.schema import FIGURES
from kernel_matrix.results.columns.sql import Connection, enter, rows, temporary

# All that a record says, in one order.
_CONTENT = f"""
    SELECT record, [c."case", outcome, action, stage, message, detail, seconds::VARCHAR, attempts::VARCHAR,
        list_sort(map_entries(c.facts))::VARCHAR, list_sort(map_entries(c.figures))::VARCHAR]::VARCHAR AS text
    FROM cases c WHERE c.source IN (FROM doubles)
    UNION ALL
    SELECT record, row(output, {", ".join(FIGURES)})::VARCHAR || list_sort(map_entries(o.others))::VARCHAR
    FROM outputs o WHERE o.source IN (FROM doubles)
"""


def add(connection: Connection, sources: Mapping[int, Path]) -> None:
    """Enter new sources by number."""
    schema = pa.schema({"source": pa.int32(), "path": pa.string(), "position": pa.int32()})
    columns = {"source": [*sources], "path": [*map(str, sources.values())], "position": [None] * len(sources)}
    enter(connection, "new_sources", schema, columns)
    connection.execute("INSERT INTO sources FROM new_sources").fetchall()


def make_present(connection: Connection, numbers: Sequence[int]) -> set[int]:
    """Give the sources their positions, in this order, and return those that have one. Only these count.

    One whose jobs are all in sources before it, with the same content, gets none: it is a copy.
    """
    ordered = [*dict.fromkeys(numbers)]
    schema = pa.schema({"position": pa.int32(), "source": pa.int32()})
    enter(connection, "positions", schema, {"position": range(len(ordered)), "source": ordered})
    copies = _copies(connection)
    connection.execute("UPDATE sources SET position = NULL WHERE position IS NOT NULL").fetchall()
    connection.execute(
        """
        UPDATE sources SET position = p.position FROM positions p
        WHERE p.source = sources.source AND NOT list_contains(?::INTEGER[], p.source)
        """,
        [sorted(copies)],
    ).fetchall()
    return {*ordered} - copies


def _copies(connection: Connection) -> set[int]:
    """Return the sources whose jobs are all there before.

    Jobs of the same name and start are compared by content, without regard to the order of their records.
    """
    temporary(
        connection,
        "starts",
        """
        SELECT source, job, position, facts['job'] AS name, coalesce(facts['started'], '') AS started, facts
        FROM jobs JOIN positions USING (source)
        """,
    )
    temporary(
        connection,
        "doubles",
        """
        SELECT DISTINCT source FROM starts
        WHERE (name, started) IN (SELECT (name, started) FROM starts GROUP BY ALL HAVING count(*) > 1)
        """,
    )
    jobs: dict[int, list[str]] = {}
    for source, digest in rows(connection, _DIGESTS):
        jobs.setdefault(source, []).append(digest or "")
    unnamed = {source for (source,) in rows(connection, "SELECT source FROM starts WHERE name IS NULL")}
    before: set[str] = set()
    copies: set[int] = set()
    for source, digests in jobs.items():
        if source not in unnamed and {*digests} <= before:
            copies.add(source)
        before |= {*digests}
    return copies


# A digest of the content of each job that is perhaps there twice.
_DIGESTS = f"""
    WITH of_records AS (SELECT record, sha256(string_agg(text, ' ' ORDER BY text)) AS digest FROM ({_CONTENT})
        GROUP BY record),
    of_jobs AS (
        SELECT c.job, sha256(string_agg(digest, ' ' ORDER BY digest)) AS digest
        FROM of_records JOIN cases c USING (record) GROUP BY c.job
    )
    SELECT source, digest || sha256(list_sort(map_entries(facts))::VARCHAR)
    FROM starts LEFT JOIN of_jobs USING (job) WHERE name IS NOT NULL AND source IN (FROM doubles)
    ORDER BY position, job
"""
