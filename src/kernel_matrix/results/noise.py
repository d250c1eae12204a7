"""Figures of outputs -> noise: the error of a kernel's output over the error of the baseline in the same dtype.

Both errors are relative Frobenius norms against the same float64 golden. A ratio of 1 says that the kernel is as exact
as the baseline. The ratio is made from the two errors here, and never taken from a record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.store.record import Record, outputs_of

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
