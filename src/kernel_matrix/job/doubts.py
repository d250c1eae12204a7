"""Doubts about a comparison whose numbers are inside the budget: each is a sentence, and none is a matter of taste."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from kernel_matrix.job.accuracy import Golden, correctly_rounded, distance
from kernel_matrix.job.inputs import Array

_FEW = 64  # elements: of fewer, luck decides
_ONE_SIDED, _DEVIATIONS = 0.5, 6.0  # of the errors: 3 of 4 on one side, and no luck
_MORE = 1.2  # times the error of plain code: below, the last rounding hides what was before it
_LEAST = 8 * 2.0**-24  # an error of fp32 itself: functions of a library may err on one side by a step
_NEAR = 4.0  # steps of its dtype, times the root of the operations in turn
_FAR, _FAR_AND_SAME = 1000.0, 16.0  # steps of its dtype by which plain code is off


def narrow_golden(result: Array, golden: Golden, eager: list[Array], steps: int) -> str:
    """Return a sentence if the golden holds numbers of the result's dtype alone, and the results are next to them.

    An operator that is exact has such a golden too: its results are equal to it. So has one that loses much, as a
    quantization of what came in: its results are further away.
    """
    if golden.size < _FEW or (golden == np.rint(golden)).all():
        return ""
    exact = bool((correctly_rounded(golden, result.dtype).astype(np.float64) == golden).all())
    others = [one for one in (result, *eager) if not np.array_equal(one.astype(np.float64), golden)]
    near = _NEAR * math.sqrt(steps) * _step(result)
    if (
        not exact
        or not others
        or result.dtype.itemsize >= 8
        or max(distance(one, golden).rel_fro for one in others) > near
    ):
        return ""
    return (
        f"every element of the golden is a number of {result.dtype}, so it was computed in that dtype and only "
        "converted to float64: compute it in float64"
    )


def one_sided(result: Array, golden: Golden, eager: list[Array]) -> str:
    """Return a sentence if the errors point to one side of the golden and plain code's do not: a truncation."""
    error = distance(result, golden).rel_fro
    floor = max((distance(one, golden).rel_fro for one in eager), default=math.inf)
    if not error > max(_MORE * floor, _LEAST):
        return ""
    inward, count = _inward(result, golden)
    plain = max((abs(_inward(one, golden)[0]) for one in eager), default=0.0)
    if count < _FEW or abs(inward) * math.sqrt(count) < _DEVIATIONS or abs(inward) < max(_ONE_SIDED, 2 * plain):
        return ""
    side = "nearer to zero" if inward > 0 else "further from zero"
    return f"{(1 + abs(inward)) / 2:.0%} of the {count} errors lie {side} than the golden: a truncation, or a factor"


def _inward(values: Array, golden: Golden) -> tuple[float, int]:
    """Return the share of errors towards zero less those away from it, and the number of errors."""
    errors = (golden - values.astype(np.float64)) * np.sign(golden)
    inward, outward = int(np.count_nonzero(errors > 0)), int(np.count_nonzero(errors < 0))
    return ((inward - outward) / (inward + outward), inward + outward) if inward + outward else (0.0, 0)


def far_eager(result: Array, golden: Golden, eager: list[Array], conditioning: float, steps: int) -> str:
    """Return a sentence if the budget follows from plain code that is far off by itself."""
    for one in eager:
        off = distance(one, golden).rel_fro / max(math.sqrt(steps) * _step(result), conditioning)
        same = np.array_equal(one, result)
        if off > (_FAR_AND_SAME if same else _FAR):
            words = "is the result bit by bit, and " if same else ""
            return f"eager {words}is {off:.0f} rounding errors off: the budget follows from its error. Say why: source="
    return ""


def _step(values: Array) -> float:
    """Return the distance from 1 to the next number of a dtype."""
    return float(ml_dtypes.finfo(values.dtype).eps)  # type: ignore[no-untyped-call]


def zero_rows(result: Array, golden: Golden, eager: list[Array]) -> str:
    """Return a sentence if rows that are exactly zero in the golden and in plain code are not zero."""
    if golden.ndim < 2 or not golden.size or not golden.any():
        return ""
    rows = golden.reshape(-1, golden.shape[-1])
    zero = ~rows.any(axis=1)
    plain = [one.reshape(rows.shape)[zero].astype(np.float64) for one in eager]
    if not zero.any() or any(one.any() for one in plain):
        return ""
    held = np.abs(result.reshape(rows.shape)[zero].astype(np.float64))
    least = float(np.abs(golden[golden != 0]).min()) * 2.0**-24
    wrong = int((held > least).any(axis=1).sum())
    return f"{wrong} rows that must be zero hold up to {held.max():.3g}: they were not written" if wrong else ""
