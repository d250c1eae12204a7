"""The verdicts of an earlier report in a database that is kept, and the cells whose verdicts may be others now.

A verdict follows from the plan, from the day, from the code, from the results of its cell, from what is held against
the jobs of these, and from what the results of a case have in common in all cells. Where all of this is as it was, the
verdicts of a cell stay.
"""

from __future__ import annotations

from datetime import date
from hashlib import sha256

from kernel_matrix.results.columns.code import digest_of_code
from kernel_matrix.results.columns.planned import Planned
from kernel_matrix.results.columns.schema import COMMON
from kernel_matrix.results.columns.sql import Connection, rows, temporary

# The columns of `results` that follow from the plan and from a file alone.
_RESULTS = {
    **dict.fromkeys(("planned", "cell", "key", "owed"), "INTEGER"),
    "dtype": "VARCHAR",
    "source": "INTEGER",
    **dict.fromkeys(("record", "job"), "BIGINT"),
    **dict.fromkeys(("outcome", "action", "digest"), "VARCHAR"),
    **dict.fromkeys(("tried", "badness"), "INTEGER"),
    "kind": "VARCHAR",
    **dict.fromkeys(("elements", "bytes", "injected"), "DOUBLE"),
}
TABLES = f"""
    CREATE TABLE kept_with (digest VARCHAR);
    -- The results of the sources that an earlier report has judged.
    CREATE TABLE kept_sources (source INTEGER);
    CREATE TABLE kept_results ({", ".join(f"{name} {kind}" for name, kind in _RESULTS.items())});
    CREATE TABLE kept_verdicts (
        planned INTEGER, state VARCHAR, evidence VARCHAR, reason VARCHAR, stale VARCHAR, record BIGINT
    );
    -- What the verdicts of a cell follow from, and the number of the report that judged it last.
    CREATE TABLE kept_cells (cell INTEGER, basis VARCHAR, judged BIGINT);
    CREATE TABLE kept_inputs (key INTEGER, digest VARCHAR);
    CREATE TABLE kept_figures (
        key INTEGER, name VARCHAR, is_stale BOOLEAN, {", ".join(f"{name} DOUBLE" for name in COMMON)}
    );
    -- What the page says of a cell, see report/shown_cells.py.
    CREATE TABLE shown_cells (
        cell INTEGER, judged BIGINT, made_with VARCHAR, content VARCHAR, seconds DOUBLE, measured BIGINT[],
        jobs BIGINT[], states VARCHAR, digest VARCHAR
    );
"""
_ALL = ("results", "sources", "verdicts", "cells", "inputs", "figures")


def begin(connection: Connection, planned: Planned, today: date | None) -> None:
    """Forget the earlier verdicts if they follow from another plan, another day or other code."""
    digest = _made_with(planned, today)
    if rows(connection, "SELECT digest FROM kept_with") != [(digest,)]:
        connection.begin()
        for table in (*(f"kept_{name}" for name in _ALL), "shown_cells", "kept_with"):
            connection.execute(f"DELETE FROM {table}").fetchall()
        connection.execute("INSERT INTO kept_with VALUES (?)", [digest]).fetchall()
        connection.commit()


def _made_with(planned: Planned, today: date | None) -> str:
    digest = sha256(f"{digest_of_code()} {today}".encode())
    for values in (planned.cells, planned.names, planned.exclusions, planned.expectations):
        digest.update(f" {values!r}".encode("utf-8", "backslashreplace"))
    for numbers in (planned.cell, planned.named, planned.exclusion, planned.rules):
        digest.update(numbers.tobytes())
    return digest.hexdigest()


def number_new(connection: Connection, numbered: str) -> None:
    """Make ``kept_results`` those of the present sources; ``numbered`` asks for those that it does not have."""
    present = "SELECT source FROM sources WHERE position IS NOT NULL"
    connection.begin()
    for question in (
        f"DELETE FROM kept_results WHERE source NOT IN ({present})",
        f"INSERT INTO kept_results {numbered}",
        "DELETE FROM kept_sources",
        f"INSERT INTO kept_sources {present}",
    ):
        connection.execute(question).fetchall()
    connection.commit()


def judge_all(connection: Connection) -> None:
    """Make ``changed_cells``, the cells that are judged: all."""
    temporary(connection, "changed_cells", "SELECT cell FROM plan_cells")


def find_changed(connection: Connection) -> None:
    """Make ``changed_cells``: those of which something is new that their verdicts follow from."""
    temporary(connection, "cells_now", _BASIS)
    temporary(
        connection,
        "changed_cells",
        """
        WITH moved AS (
            SELECT key FROM (FROM common_inputs EXCEPT FROM kept_inputs)
            UNION SELECT key FROM (FROM kept_inputs EXCEPT FROM common_inputs)
            UNION SELECT key FROM (FROM common_figures EXCEPT FROM kept_figures)
            UNION SELECT key FROM (FROM kept_figures EXCEPT FROM common_figures)
        )
        SELECT cell FROM cells_now ANTI JOIN kept_cells USING (cell, basis)
        UNION SELECT cell FROM results SEMI JOIN moved USING (key)
        """,
    )


# The results of a cell are those of its files, in their order; the content of a file never changes under its number.
_BASIS = """
    WITH jobs_of_cells AS (SELECT DISTINCT cell, job, ordinal >> 32 AS position FROM results)
    SELECT cell, coalesce(sha256(string_agg(
        concat_ws(' ', j.job, length(t.text), t.text, f.fault), ' ' ORDER BY j.position, j.job
    )), '') AS basis
    FROM plan_cells p LEFT JOIN jobs_of_cells j USING (cell)
    LEFT JOIN stale_jobs s ON s.job = j.job AND s.platform = p.platform AND s.toolchain = p.toolchain
    LEFT JOIN stale_reasons t ON t.stale = s.reason
    LEFT JOIN faulty_jobs f ON f.job = j.job
    GROUP BY cell
"""


def keep(connection: Connection) -> None:
    """Keep ``new_verdicts``, those of the changed cells, beside those of the others."""
    connection.begin()
    for question in (
        "DELETE FROM kept_verdicts WHERE planned IN (SELECT planned FROM planned SEMI JOIN changed_cells USING (cell))",
        "INSERT INTO kept_verdicts SELECT planned, state, evidence, reason, stale, record FROM new_verdicts",
        """
        CREATE OR REPLACE TEMP TABLE judged_now AS
            SELECT cell, basis, (SELECT coalesce(max(judged), 0) + 1 FROM kept_cells) AS judged
            FROM cells_now SEMI JOIN changed_cells USING (cell)
        """,
        "DELETE FROM kept_cells WHERE cell IN (FROM changed_cells)",
        "INSERT INTO kept_cells FROM judged_now",
        "DELETE FROM kept_inputs",
        "INSERT INTO kept_inputs FROM common_inputs",
        "DELETE FROM kept_figures",
        "INSERT INTO kept_figures FROM common_figures",
    ):
        connection.execute(question).fetchall()
    connection.commit()
