"""Figures of outputs -> the noise of every cell by dtype and output, as :class:`kernel_matrix.results.noise.Noise`."""

from __future__ import annotations

from kernel_matrix.results.noise import MOST_ELEMENTS, WIDE, Noise
from kernel_matrix.store.database import Connection, rows


def noise_of_cells(connection: Connection, where: str = "true") -> dict[int, dict[str, dict[str, Noise]]]:
    """Return the noise by cell, dtype and output, the least exact output first, of the cases of a condition."""
    cells: dict[int, dict[str, dict[str, Noise]]] = {}
    for cell, dtype, output, *sums in rows(connection, _SUMS.replace("WHERE", f"WHERE {where} AND", 1)):
        cells.setdefault(cell, {}).setdefault(dtype, {})[output] = Noise(*sums)
    return cells


def _magnitude(figure: str) -> str:
    """Return the SQL of a figure as an error: Inf for NaN, and for a negative one."""
    return f"CASE WHEN {figure} >= 0 AND NOT isnan({figure}) THEN {figure} ELSE 'inf'::DOUBLE END"


_SUMS = f"""
    WITH compared AS (
        SELECT t.cell, coalesce(n.dtype, 'any') AS dtype, o.output, t.action = 'emulate' AS emulated,
               least({_magnitude("coalesce(o.elements, 1)")}, {MOST_ELEMENTS}) AS weight,
               CASE WHEN coalesce(o.nan, 0) <> 0 OR coalesce(o.inf, 0) <> 0 THEN 'inf'::DOUBLE
                    ELSE {_magnitude("o.rel_fro")} END AS error,
               {_magnitude("o.floor_rel_fro")} AS floor,
               coalesce(o.itemsize, {WIDE}) < {WIDE} AND o.misrounded IS NOT NULL AND o.floor_misrounded IS NOT NULL
                   AS narrow,
               {_magnitude("o.misrounded")} AS wrong, {_magnitude("o.floor_misrounded")} AS floor_wrong
        FROM taken t JOIN outputs o USING (record) JOIN planned p USING (planned) JOIN plan_names n USING (named)
        WHERE t.outcome IN ('pass', 'fail') AND o.rel_fro IS NOT NULL AND o.floor_rel_fro IS NOT NULL
    ),
    weighted AS (SELECT *, floor <> 0 AND floor < 'inf'::DOUBLE AS known, error / floor AS ratio FROM compared)
    SELECT cell, dtype, output, count(*), if(bool_or(emulated), 'emulated', 'ran'), sum(weight),
           sqrt(sum(if(error = 0, 0, weight * ratio * ratio)) FILTER (known) / nullif(sum(weight) FILTER (known), 0))
               AS noise,
           sum(weight * wrong) FILTER (narrow) / nullif(sum(weight) FILTER (narrow), 0),
           sum(weight * floor_wrong) FILTER (narrow) / nullif(sum(weight) FILTER (narrow), 0)
    FROM weighted GROUP BY cell, dtype, output ORDER BY cell, dtype, noise DESC NULLS LAST, output
"""
