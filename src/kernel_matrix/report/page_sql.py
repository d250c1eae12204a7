"""The SQL that gives the cases of the page and their outputs, as columns in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.results.noise import MOST_ELEMENTS
from kernel_matrix.results.states import STATES
from kernel_matrix.store.database import Connection, enter, temporary
from kernel_matrix.store.schema import FIGURES

# The figures of every output in the page's data. The noise ratio is computed, and never taken from a record.
PAGE_FIGURES = (*(name for name in FIGURES if name != "noise_ratio"), "noise_ratio")


def number(value: str) -> str:
    """Return the SQL for a number as :func:`kernel_matrix.report.cells.number` makes it, as JSON."""
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


_NAMES = ", ".join(f"'{state}'" for state in STATES)
_SHARE = "(error / floor)"
_EVIDENCE = ", ".join(f"'{level}'" for level in EVIDENCE)
# The cases of some places, in order. The columns that end with ``_json`` are JSON with a comma behind it.
CASES = f"""
    SELECT p.cell, p.named, list_position([{_NAMES}], p.state)::UTINYINT - 1 AS state,
           list_position([{_EVIDENCE}], p.evidence)::UTINYINT - 1 AS evidence, p.reason, p.stale,
           coalesce(c.job, -1) AS job, coalesce(c.outcome, '') AS outcome, coalesce(c.action, '') AS action,
           coalesce(c.stage, '') AS stage, coalesce(c.message, '') AS message, coalesce(c.detail, '') AS detail,
           coalesce(c.seconds, 0) AS seconds, CASE WHEN len(c.attempts) > 0 THEN c.attempts END AS attempts,
           coalesce(to_json(c.facts)::VARCHAR, '{{}}') || ',' AS facts_json,
           coalesce(c.facts['image'], '') AS image, coalesce(c.facts['lock.sha256'], '') AS lock,
           '{{' || coalesce(array_to_string([to_json(substring(e.key, 10)) || ':' || {number("e.value")}
               FOR e IN map_entries(c.figures) IF starts_with(e.key, 'artifact.')], ','), '') || '}},' AS artifact_json,
           CASE WHEN c.figures['time.run'] IS NOT NULL AND c.figures['time.eager'] IS NOT NULL
                 AND c.figures['time.ratio'] IS NOT NULL AND c.figures['time.rounds'] IS NOT NULL
               THEN [c.figures['time.run'], c.figures['time.eager'], c.figures['time.ratio'], c.figures['time.rounds']]
               END AS times
    FROM page_cases p LEFT JOIN cases c ON c.record = p.record
    WHERE p.place BETWEEN $1 AND $2 ORDER BY p.place
"""
# Their outputs. ``of_case`` is the place of the case from the first of these cases on, and ``place`` orders the outputs
# of a case. They come in any order: DuckDB would sort whole rows, and Arrow sorts these two columns (``IN_ORDER``).
OUTPUTS = f"""
    WITH of_outputs AS (
        SELECT p.place - $1 AS of_case, o.place, o.output, {", ".join(f"o.{name}" for name in PAGE_FIGURES[:-1])},
               CASE WHEN cardinality(o.others) > 0 THEN o.others END AS others,
               least({_magnitude("coalesce(o.elements, 1)")}, {MOST_ELEMENTS}) AS weight,
               CASE WHEN coalesce(o.nan, 0) <> 0 OR coalesce(o.inf, 0) <> 0 THEN 'inf'::DOUBLE
                   ELSE {_magnitude("o.rel_fro")} END AS error,
               {_magnitude("o.floor_rel_fro")} AS floor
        FROM page_cases p JOIN outputs o ON o.record = p.record WHERE p.place BETWEEN $1 AND $2
    )
    SELECT of_case::INTEGER AS of_case, place, output, others, {", ".join(PAGE_FIGURES[:-1])},
           CASE WHEN floor > 0 AND floor < 'inf' AND weight > 0 AND rel_fro IS NOT NULL
               THEN CASE WHEN error = 0 THEN 0 ELSE sqrt(weight * {_SHARE} * {_SHARE} / weight) END END AS noise_ratio
    FROM of_outputs
"""
IN_ORDER = [("of_case", "ascending"), ("place", "ascending")]
