"""Measure how the error of an output grows with the number of rows: a case of many rows is run with fewer as well.

The size of an error is counted in the noise: how far the golden moves when every input is off by one rounding error of
fp32. An error below the noise counts as the noise, so that neither luck at few rows nor a sum that cancels makes a
slope. It is the slope of a straight line through log(error) over log(tokens). What it may be follows from how errors
of rounding add up (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019): s additions, one
after the other, are off by about √s rounding errors.

- One chain over all T rows is off by √T: its slope is 1/2.
- √T chains of √T rows each, and one chain over their sums, are off by √(2√T): the slope is 1/4. A fixed number of
  blocks comes near 1/2 too, but for more rows than here. A sum in pairs has a slope near 0.
- An output of each row alone is no sum over rows: its slope is 0.

``accuracy.growth`` in matrix.yaml has the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernel_matrix.job.accuracy import distance, worst
from kernel_matrix.kit import draws, plain
from kernel_matrix.kit.misbehaviour import WrongResultError
from kernel_matrix.kit.running import Running

ROWS = (16, 256, 4096, 16384)
LEAST = 4096  # rows from which a case is run with fewer as well

_NUDGES = 3  # how often the golden is computed with nudged inputs, to see how far rounding errors move it
_ROUNDING = 2.0**-24  # the largest relative error of one rounding to fp32


@dataclass(frozen=True)
class Point:
    """The relative Frobenius error of one output at a number of rows, and the noise there."""

    rows: int
    error: float
    noise: float

    @property
    def size(self) -> float:
        """The error in units of the noise, at least one."""
        ratio = self.error / max(self.noise, _ROUNDING)
        return 1.0 if ratio <= 1 else ratio  # max() would take NaN for one


def sizes_of(running: Running) -> list[int]:
    """Return the smaller numbers of rows that a case is run with as well; none for a small case."""
    if running.op.rows is None or running.case.accuracy.get("growth") is None:
        return []
    own = int(running.sizes[running.op.rows])
    return [size for size in ROWS if size < own] if own >= LEAST else []


def growth(running: Running) -> None:
    """Run the case with its first rows alone too, and hold the growth of each output's error."""
    points: dict[str, list[Point]] = {}
    for rows in sizes_of(running):
        for name, point in _points(running, rows).items():
            points.setdefault(name, []).append(point)
    metrics = running.case.metrics
    for name, series in points.items():
        error, noise = metrics[f"{name}.rel_fro"], metrics[f"{name}.conditioning_rel_fro"]
        series.append(Point(int(running.sizes[running.op.rows or ""]), error, noise))
    hold(points, metrics, running.case.limit_growth)


def _points(running: Running, rows: int) -> dict[str, Point]:
    """Return the error of every variant's outputs, and the noise, for so many of the first rows."""
    op, at = running.op, {**running.sizes, running.op.rows or "": rows}
    values = draws.of_rows(running.given, running.by_row, lambda one: one[:rows].copy())
    golden = plain.exact(op, draws.wide(values), at, running.asked)
    moved = [draws.nudged(running.case, values, draw) for draw in range(_NUDGES)]
    nudged = [plain.exact(op, one, at, running.asked) for one in moved]
    points, there = {}, running.find_variants(at)
    for variant in running.variants:
        running.variant = variant if variant in there else ""  # the one that is chosen for so many rows
        for name, result in running.run(values, at, what=f" of {rows} rows").items():
            if draws.is_whole(result):
                continue
            errors = distance(result, golden[name])
            if errors.nan + errors.inf:
                raise WrongResultError("kit-growth", f"{name}{variant}: NaN or Inf with {rows} rows")
            noise = worst([distance(one[name], golden[name]) for one in nudged]).rel_fro
            points[f"{name}{variant}"] = Point(rows, errors.rel_fro, noise)
    running.variant = ""
    return points


def slope(points: Sequence[Point]) -> float:
    """Return the slope of log(size) over log(rows) by least squares."""
    rows = [math.log(point.rows) for point in points]
    middle = sum(rows) / len(rows)
    rise = sum((at - middle) * math.log(point.size) for at, point in zip(rows, points, strict=True))
    return rise / sum((at - middle) ** 2 for at in rows)


def hold(outputs: Mapping[str, Sequence[Point]], metrics: dict[str, float], limit_of: Callable[[str], float]) -> None:
    """Record the slope of every output and its limit, and compare them. ``limit_of`` returns the limit of an output.

    Raises:
        WrongResultError: an error grows too fast; the text says which, and its size at every number of rows.
    """
    faults = []
    for name, points in outputs.items():
        grown, limit = slope(points), limit_of(name)
        metrics |= {f"{name}.growth": grown, f"{name}.limit_growth": limit}
        if not grown <= limit:
            sizes = ", ".join(f"{point.size:.3g} at {point.rows}" for point in points)
            faults.append(f"{name}: the error grows as rows^{grown:.2f}, over {limit:.3g} ({sizes} times the noise)")
    if faults:
        raise WrongResultError("kit-growth", "; ".join(faults))
