"""Figures of outputs -> noise: the error of a kernel's output over the error of the baseline in the same dtype.

Both errors are relative Frobenius norms against the same float64 golden. A ratio of 1 says that the kernel is as exact
as the baseline. The ratio is made from the two errors here, and never taken from a record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.store.record import Record, outputs_of

if TYPE_CHECKING:
    from kernel_matrix.store.database import Connection

MOST_ELEMENTS = 1000
WIDE = 4  # the bytes of fp32, which kernels compute in: a narrower output is rounded once more at its end


@dataclass(frozen=True)
class Noise:
    """The errors of one output, over several cases together.

    ``ratio`` is the root mean square of the cases' noise ratios, None where the baseline has no error in any case. A
    case weighs as much as it has elements, because in a case of few elements the baseline can be nearly exact by luck;
    and at most as much as ``MOST_ELEMENTS``, because of so many the ratio is known to a few per cent, and a large case
    must not hide a small one. ``elements`` is the sum of the weights. ``misrounded`` and ``floor_misrounded`` are the
    shares of the elements that are not the correctly rounded golden, of the kernel and of the baseline; None for
    outputs that are not narrower than fp32.
    """

    cases: int
    evidence: Evidence  # the least of its cases
    elements: float
    ratio: float | None
    misrounded: float | None
    floor_misrounded: float | None


def ratio_of(figures: Mapping[str, float]) -> float | None:
    """Return the noise ratio of one output in one case; None where a figure for it is not there."""
    if "rel_fro" not in figures or not _magnitude(figures.get("elements", 1.0)):
        return None
    error, floor = _magnitude(figures["rel_fro"]), _magnitude(figures.get("floor_rel_fro", 0.0))
    if figures.get("nan") or figures.get("inf"):
        error = math.inf
    return error / floor if 0 < floor < math.inf else None


def ratios(record: Record) -> dict[str, float]:
    """Return the noise ratio of every output in one case, the least exact first; no output whose baseline is exact."""
    known = {output: ratio_of(figures) for output, figures in outputs_of(record.metrics).items()}
    made = {output: ratio for output, ratio in known.items() if ratio is not None}
    return dict(sorted(made.items(), key=lambda item: (-item[1], item[0])))


def in_words(record: Record, most: int | None = None) -> str:
    """Return the noise ratios of a case, the least exact output first: ``h_in 1.02, out 0.98``; empty if none is known.

    An output that is narrower than fp32 has its own share of misrounded elements and the baseline's. ``most``
    outputs are named at most.
    """
    texts, outputs = [], outputs_of(record.metrics)
    for output, ratio in [*ratios(record).items()][:most]:
        figures, shares = outputs[output], ""
        if figures.get("itemsize", WIDE) < WIDE and "misrounded" in figures and "floor_misrounded" in figures:
            wrong, floor = (_magnitude(figures[name]) for name in ("misrounded", "floor_misrounded"))
            shares = f" (misrounded {wrong:.2%}, baseline {floor:.2%})"
        texts.append(f"{output} {ratio:.3g}{shares}")
    return ", ".join(texts)


def _magnitude(value: float) -> float:
    """Return a figure of a record; Inf for NaN, and for a negative one, which no error is."""
    return value if value >= 0 else math.inf


def as_float(ratio: float | str) -> float:
    """Return a number of the document, which writes Inf and NaN as words; NaN counts as Inf."""
    value = float(ratio)
    return math.inf if math.isnan(value) else value


def noise_of_cells(connection: Connection, where: str = "true") -> dict[int, dict[str, dict[str, Noise]]]:
    """Return the noise by cell, dtype and output, the least exact output first, of the cases of a condition."""
    from kernel_matrix.store.database import rows  # it takes long to import

    cells: dict[int, dict[str, dict[str, Noise]]] = {}
    for cell, dtype, output, *sums in rows(connection, _SUMS.replace("WHERE", f"WHERE {where} AND", 1)):
        cells.setdefault(cell, {}).setdefault(dtype, {})[output] = Noise(*sums)
    return cells


def _size_of(figure: str) -> str:
    """Return the SQL of a figure as an error: Inf for NaN, and for a negative one."""
    return f"CASE WHEN {figure} >= 0 AND NOT isnan({figure}) THEN {figure} ELSE 'inf'::DOUBLE END"


_SUMS = f"""
    WITH compared AS (
        SELECT t.cell, coalesce(n.dtype, 'any') AS dtype, o.output, t.action = 'emulate' AS emulated,
               least({_size_of("coalesce(o.elements, 1)")}, {MOST_ELEMENTS}) AS weight,
               CASE WHEN coalesce(o.nan, 0) <> 0 OR coalesce(o.inf, 0) <> 0 THEN 'inf'::DOUBLE
                    ELSE {_size_of("o.rel_fro")} END AS error,
               {_size_of("o.floor_rel_fro")} AS floor,
               coalesce(o.itemsize, {WIDE}) < {WIDE} AND o.misrounded IS NOT NULL AND o.floor_misrounded IS NOT NULL
                   AS narrow,
               {_size_of("o.misrounded")} AS wrong, {_size_of("o.floor_misrounded")} AS floor_wrong
        FROM taken t JOIN outputs o USING (record) JOIN planned p USING (planned) JOIN plan_names n USING (named)
        WHERE t.outcome IN ('pass', 'fail') AND o.rel_fro IS NOT NULL AND o.floor_rel_fro IS NOT NULL
    ),
    weighted AS (
        SELECT * REPLACE (narrow AND weight > 0 AS narrow),  -- a case without elements has no share of anything
               weight > 0 AND floor <> 0 AND floor < 'inf'::DOUBLE AS known, error / floor AS ratio
        FROM compared
    )
    SELECT cell, dtype, output, count(*), if(bool_or(emulated), 'emulated', 'ran'), sum(weight),
           sqrt(sum(if(error = 0, 0, weight * ratio * ratio)) FILTER (known) / nullif(sum(weight) FILTER (known), 0))
               AS noise,
           sum(weight * wrong) FILTER (narrow) / nullif(sum(weight) FILTER (narrow), 0),
           sum(weight * floor_wrong) FILTER (narrow) / nullif(sum(weight) FILTER (narrow), 0)
    FROM weighted GROUP BY cell, dtype, output ORDER BY cell, dtype, noise DESC NULLS LAST, output
"""
