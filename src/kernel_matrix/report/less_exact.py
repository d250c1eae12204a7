"""Noise of a cell in two runs -> the outputs that became less exact, by the number of elements and earlier runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernel_matrix.report.document import CellOutline, Noise
from kernel_matrix.report.ratios import as_float
from kernel_matrix.results.history import Measurement

# Without a history, a ratio may grow by a quarter: another order of summation moves it by that much, and elements that
# share a sum do not scatter independently.
_FACTOR = 1.25
# The root mean square of n errors scatters by 1/√(2n) of itself, and the quotient of two of them by 1/√n. Of this, four
# times is allowed.
_DEVIATIONS = 4.0
_ENOUGH = 5  # earlier runs on the same device, whose own spread then says what may happen


@dataclass(frozen=True)
class LessExact:
    """An output whose ``figure`` grew beyond ``limit``; ``why`` says where the limit comes from."""

    cell: str
    dtype: str
    output: str
    figure: str
    before: float
    after: float
    limit: float
    why: str
    repeat: str


def less_exact(before: CellOutline, now: CellOutline, earlier: Sequence[Measurement] = ()) -> Iterator[LessExact]:
    """Yield the outputs of a cell that both runs have measured in the same cases, and that are less exact now.

    ``earlier`` are the measurements of runs before this one, on the device of this one.
    """
    for dtype, outputs in now.noise.items():
        for output, noise in outputs.items():
            former = before.noise.get(dtype, {}).get(output)
            if former is None or not same_cases(former, noise):
                continue
            history = [one.noise[f"{dtype}/{output}"] for one in earlier if f"{dtype}/{output}" in one.noise]
            for figure, values, limit, why in _figures(former, noise, history):
                if values[1] > limit:
                    yield LessExact(now.id, dtype, output, figure, *values, limit, why, now.repeat)


def same_cases(former: Noise, noise: Noise) -> bool:
    """Return whether two figures are of the same cases, as far as their numbers say."""
    return (former.cases, former.elements) == (noise.cases, noise.elements)


def not_compared(before: CellOutline, now: CellOutline) -> int:
    """Return how many outputs of a cell were measured in other cases in the two runs, such as in another tier."""
    return sum(
        output in before.noise.get(dtype, {}) and not same_cases(before.noise[dtype][output], noise)
        for dtype, outputs in now.noise.items()
        for output, noise in outputs.items()
    )


_Figure = tuple[str, tuple[float, float], float, str]


def _figures(former: Noise, noise: Noise, history: Sequence[float]) -> Iterator[_Figure]:
    """Yield the figures that both runs know, each with its two values, its limit and where that comes from."""
    elements = max(1, noise.elements)
    if former.ratio is not None and noise.ratio is not None:
        values = as_float(former.ratio), as_float(noise.ratio)
        yield "noise ratio", values, *ratio_limit(values[0], elements, history)
    if former.misrounded is not None and noise.misrounded is not None:
        shares = as_float(former.misrounded), as_float(noise.misrounded)
        yield "share of misrounded elements", shares, *misrounded_limit(shares[0], elements)


def ratio_limit(before: float, elements: int, history: Sequence[float] = ()) -> tuple[float, str]:
    """Return the largest noise ratio that is not less exact, and where it comes from."""
    scatter = before * (1 + _DEVIATIONS / math.sqrt(elements))
    if len(history) < _ENOUGH:
        return _FACTOR * scatter, f"the scatter of {elements} elements, and a quarter"
    most, least = max(history), min(history)
    spread = most + (most - least)
    if spread > scatter:
        return spread, f"the spread of {len(history)} earlier runs"
    return scatter, f"the scatter of {elements} elements"


def misrounded_limit(before: float, elements: int) -> tuple[float, str]:
    """Return the largest share of misrounded elements that is not less exact, and where it comes from."""
    count = before * elements
    limit = (_FACTOR * count + _DEVIATIONS * math.sqrt(count + 1)) / elements
    return limit, f"the scatter of a count in {elements} elements, and a quarter"
