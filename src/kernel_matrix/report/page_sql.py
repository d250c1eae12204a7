"""The SQL that gives the cases of the page: every number is text in JSON already, with the digits that the page has."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kernel_matrix.results.columns.schema import FIGURES
from kernel_matrix.results.columns.sql import Connection, enter, temporary
from kernel_matrix.results.compare import STATES
from kernel_matrix.results.noise import MOST_ELEMENTS

# The figures of every output in the page's data. The noise ratio is computed, and never taken from a record.
PAGE_FIGURES = (*(name for name in FIGURES if name != "noise_ratio"), "noise_ratio")


def number(value: str) -> str:
    """Return the SQL for a number as :func:`kernel_matrix.report.figures.number` makes it, as JSON."""
    return f"""CASE WHEN {value} IS NULL THEN 'null'
        WHEN {value} = trunc({value}) AND abs({value}) < 1e15 THEN {value}::BIGINT::VARCHAR
        WHEN isfinite({value}) THEN format('{{:.5g}}', {value})
        WHEN isnan({value}) THEN '"nan"' WHEN {value} > 0 THEN '"inf"' ELSE '"-inf"' END"""


def _magnitude(value: str) -> str:
    return f"CASE WHEN isnan({value}) OR {value} < 0 THEN 'inf'::DOUBLE ELSE {value} END"


def order_cases(connection: Connection, cells: Sequence[int]) -> None:
    """Make ``page_cases``: the verdicts with the place of each on the page, whose cells have this order."""
    schema = pa.schema({"cell": pa.int32(), "rank": pa.int32()})
    enter(connection, "page_cells", schema, {"cell": list(cells), "rank": range(len(cells))})
    temporary(
        connection,
        "page_cases",
        """
        SELECT row_number() OVER (ORDER BY rank, planned) - 1 AS place, cell, named, v.*
        FROM verdicts v JOIN planned p USING (planned) JOIN page_cells USING (cell) ORDER BY place
        """,
    )


# The files of cells that a report wrote, as the database keeps them.
PAGES = pa.schema(
    {
        "number": pa.int32(),
        "folder": pa.string(),
        "made_with": pa.string(),
        "cells": pa.list_(pa.string()),
        "digest": pa.string(),
        "stamp": pa.string(),
    }
)
# What the page says of the cases of a cell, as a digest. The number of a record stands for all that it says: a database
# never gives the number of a file to another content. A length comes before each text, so that no two run together.
DIGESTS = """
    SELECT cell, sha256(string_agg(concat_ws(
        ' ', named, state, evidence, length(reason), reason, length(stale), stale, coalesce(record, -1)
    ), ' ' ORDER BY place)) FROM page_cases GROUP BY cell
"""
_NAMES = ", ".join(f"'{state}'" for state in STATES)
STATES_IN_ORDER = f"SELECT named, list_position([{_NAMES}], state) - 1 AS state FROM page_cases ORDER BY place"

_SHARE = "(error / floor)"
_FIGURES = ", ".join(number(name) for name in PAGE_FIGURES)
CASES = f"""
    WITH part AS (SELECT * FROM page_cases WHERE place BETWEEN $1 AND $2),
    of_outputs AS (
        SELECT o.record, o.place, o.output, o.others, {", ".join(f"o.{name}" for name in PAGE_FIGURES[:-1])},
               least({_magnitude("coalesce(o.elements, 1)")}, {MOST_ELEMENTS}) AS weight,
               CASE WHEN coalesce(o.nan, 0) <> 0 OR coalesce(o.inf, 0) <> 0 THEN 'inf'::DOUBLE
                   ELSE {_magnitude("o.rel_fro")} END AS error,
               {_magnitude("o.floor_rel_fro")} AS floor
        FROM outputs o JOIN part ON part.record = o.record
    ),
    with_ratio AS (
        SELECT *, CASE WHEN floor > 0 AND floor < 'inf' AND weight > 0 AND rel_fro IS NOT NULL
            THEN CASE WHEN error = 0 THEN 0 ELSE sqrt(weight * {_SHARE} * {_SHARE} / weight) END END AS noise_ratio
        FROM of_outputs
    ),
    written AS (
        SELECT record, place, others, output,
               to_json(output) || ':[' || concat_ws(',', {_FIGURES}) || ']' AS text
        FROM with_ratio
    ),
    of_records AS (
        SELECT record, string_agg(text, ',' ORDER BY place) AS outputs,
               list(struct_pack(output := output, others := others)) FILTER (cardinality(others) > 0) AS others
        FROM written GROUP BY record
    )
    SELECT part.cell, part.named, part.record, part.state, part.evidence, part.reason, part.stale, c.job, c.outcome,
           c.action, c.stage, c.message, c.detail, c.seconds, c.attempts, to_json(c.facts)::VARCHAR,
           c.facts['image'], c.facts['lock.sha256'],
           array_to_string([to_json(e.key[10:]) || ':' || {number("e.value")}
               FOR e IN map_entries(c.figures) IF starts_with(e.key, 'artifact.')], ','),
           CASE WHEN c.figures['time.run'] IS NOT NULL AND c.figures['time.eager'] IS NOT NULL
                 AND c.figures['time.ratio'] IS NOT NULL AND c.figures['time.rounds'] IS NOT NULL
               THEN [c.figures['time.run'], c.figures['time.eager'], c.figures['time.ratio'], c.figures['time.rounds']]
               END,
           o.outputs, o.others
    FROM part LEFT JOIN cases c ON c.record = part.record LEFT JOIN of_records o ON o.record = part.record
    ORDER BY part.place
"""
