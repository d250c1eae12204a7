"""Cells -> heat maps of the noise ratio, one for each dtype: a row for each lane, a column for each operator."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernel_matrix.report.document import Cell, Noise

# The upper ends of the steps of the scale. The middle step is as exact as the baseline, to a tenth.
STEPS = (0.5, 0.9, 1.1, 1.5, 2.0, 4.0)
# From blue over a light grey to orange and brown, which people with each kind of colour blindness can tell apart.
COLOURS = ("#2c6fa6", "#a6cbe3", "#eeeeea", "#fde0b4", "#f5b25a", "#d97a0c", "#7f3b08")
_WHITE_ON = (0, 6)  # the steps whose colour is dark


@dataclass(frozen=True)
class Square:
    """The noise of one cell in one dtype; ``cell`` is None where none is planned, and ``noise`` where none is known."""

    cell: Cell | None
    output: str = ""
    noise: Noise | None = None

    @property
    def step(self) -> int | None:
        """The number of the step of the scale; None where the ratio is not known."""
        if self.noise is None or self.noise.ratio is None:
            return None
        return bisect.bisect_left(STEPS, as_float(self.noise.ratio))

    @property
    def text(self) -> str:
        """The ratio as it stands in the square."""
        if self.noise is None:
            return "?"
        return in_short(self.noise.ratio) if self.noise.ratio is not None else "exact"


@dataclass(frozen=True)
class Row:
    """A lane with its squares, in the order of the columns."""

    toolchain: str
    target: str
    platform: str
    squares: tuple[Square, ...]


@dataclass(frozen=True)
class HeatMap:
    """The lanes that have a ratio in one dtype."""

    dtype: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    known: int


@dataclass(frozen=True)
class Step:
    """A step of the scale: its range in words, its colour, and whether text on it is white."""

    words: str
    colour: str
    white: bool


def scale() -> tuple[Step, ...]:
    """Return the steps of the scale, the most exact first."""
    words = [f"up to {STEPS[0]:g}", *(f"{low:g} to {high:g}" for low, high in itertools.pairwise(STEPS))]
    words.append(f"over {STEPS[-1]:g}")
    return tuple(Step(*pair, index in _WHITE_ON) for index, pair in enumerate(zip(words, COLOURS, strict=True)))


def heat_maps(cells: Sequence[Cell]) -> tuple[HeatMap, ...]:
    """Return a heat map for each dtype, the one with the most known squares first."""
    measured = [cell for cell in cells if cell.noise]
    counted = Counter(dtype for cell in measured for dtype in cell.noise)
    lanes = dict.fromkeys((cell.toolchain, cell.target, cell.platform) for cell in measured)
    columns = tuple(dict.fromkeys((cell.op, cell.direction) for cell in cells))
    by_place = {(cell.toolchain, cell.target, cell.platform, cell.op, cell.direction): cell for cell in cells}
    maps = []
    for dtype, known in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        rows = [
            Row(*lane, tuple(square(by_place.get((*lane, *column)), dtype) for column in columns)) for lane in lanes
        ]
        maps.append(HeatMap(dtype, columns, tuple(rows), known))
    return tuple(maps)


def square(cell: Cell | None, dtype: str) -> Square:
    """Return the square of a cell: the noise of its least exact output."""
    outputs = cell.noise.get(dtype, {}) if cell else {}
    output, noise = least_exact(outputs.items()) if outputs else ("", None)
    return Square(cell, output, noise)


def least_exact(outputs: Iterable[tuple[str, Noise]]) -> tuple[str, Noise]:
    """Return the output with the largest noise ratio."""
    return max(outputs, key=lambda item: -1.0 if item[1].ratio is None else as_float(item[1].ratio))


def lanes_without(cells: Iterable[Cell]) -> tuple[str, ...]:
    """Return the lanes of which no noise ratio is known, as ``TOOLCHAIN on TARGET``."""
    known: dict[str, bool] = {}
    for cell in cells:
        lane = f"{cell.toolchain} on {cell.target}"
        known[lane] = known.get(lane, False) or bool(cell.noise)
    return tuple(lane for lane, has_noise in known.items() if not has_noise)


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
