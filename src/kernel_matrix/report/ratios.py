"""Ratios as the document holds them: Inf and NaN are words there."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernel_matrix.report.document import Noise


def least_exact(outputs: Iterable[tuple[str, Noise]]) -> tuple[str, Noise]:
    """Return the output with the largest noise ratio."""
    return max(outputs, key=lambda item: -1.0 if item[1].ratio is None else as_float(item[1].ratio))


def as_float(ratio: float | str) -> float:
    """Return a number of the document, which writes Inf and NaN as words; NaN counts as Inf."""
    value = float(ratio)
    return math.inf if math.isnan(value) else value


def in_short(ratio: float | str) -> str:
    """Return a ratio in four characters or less, where it is no larger than 9999."""
    value = as_float(ratio)
    if math.isinf(value):
        return "∞"
    if value >= 9999.5:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
