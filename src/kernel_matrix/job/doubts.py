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
_FAR, _FAR_AND_NARROW, _FAR_AND_SAME = 1000.0, 32.0, 16.0  # steps of its dtype by which plain code is off
_MOVED = 16.0  # times what a rounding error of the inputs moves
_FP32 = 2.0**-23  # from 1 to its next number
_DIGITS = {2.0**-23: 24, 2.0**-10: 11, 2.0**-7: 8}  # by the step of a dtype: the bits of its numbers
_LOOKED_AT, _FEW_NUMBERS = 1 << 16, 16  # elements of a golden whose bits are counted, at most and at least
_NARROW, _FULL, _OTHERS = 0.95, 0.5, 0.01  # shares: short numbers; short ones that use the last two bits; other results
_MOST_ZERO, _HALF, _COARSE = 0.9, 2.0, 0.1  # of a declared budget


def narrow_golden(result: Array, golden: Golden, eager: list[Array], steps: int) -> str:
    """Return a sentence if the golden was computed in the result's dtype, or in fp32, and the results are next to it.

    Its numbers end where those of that dtype end: nearly all use the last two bits or fewer, and half use these two.
    Those of an operator that is exact do so too: its results are equal to them, but for the last rounding. So do those
    of one that loses much, as a quantization of what came in: its results are further away.
    """
    bits = _bits(golden.reshape(-1)[:: max(1, golden.size // _LOOKED_AT)])
    if len(bits) < _FEW_NUMBERS or (golden == np.rint(golden)).all():
        return ""
    rounded = correctly_rounded(golden, result.dtype)
    others = [one for one in (result, *eager) if np.count_nonzero(one != rounded) > _OTHERS * golden.size]
    for step in sorted({_step(result), _FP32} & _DIGITS.keys()):
        short = bits[bits <= _DIGITS[step]]
        ends = len(short) >= _NARROW * len(bits) and np.mean(short > _DIGITS[step] - 2) >= _FULL
        near = _NEAR * math.sqrt(steps) * max(_step(result), step)
        if ends and others and max(distance(one, golden).rel_fro for one in others) <= near:
            dtype = result.dtype if step == _step(result) else "float32"
            return (
                f"nearly every element of the golden is a number of {dtype}, so it was computed in that dtype and only "
                "converted to float64: compute it in float64, or say why: source="
            )
    return ""


def _bits(values: Golden) -> Golden:
    """Return how many bits of its fraction, with the first one, each finite number other than zero uses."""
    fractions = values[values != 0].view(np.int64) & ((1 << 52) - 1)
    return np.asarray(53 - np.log2(np.where(fractions == 0, 1 << 52, fractions & -fractions)))


def narrow_result(result: Array, golden: Golden, eager: list[Array]) -> str:
    """Return a sentence if a result of float64 is as exact as fp32 is, and plain code is as exact as float64."""
    error, floor = distance(result, golden).rel_fro, max((distance(one, golden).rel_fro for one in eager), default=1.0)
    if result.dtype.itemsize < 8 or not error > max(_FP32 / 16, _FAR * floor):
        return ""
    return f"rel_fro {error:.3g} of a float64 result: it was computed in fp32 or less, and plain code was not"


def one_sided(result: Array, golden: Golden, eager: list[Array]) -> str:
    """Return a sentence if the errors point to one side of the golden and plain code's do not: a truncation."""
    error = distance(result, golden).rel_fro
    floor = max((distance(one, golden).rel_fro for one in eager), default=math.inf)
    if not error > max(_MORE * floor, _LEAST):
        return ""
    zero, below = np.sign(golden), np.ones(())
    for side, words in ((zero, ("nearer to zero", "further from zero")), (below, ("lower", "higher"))):
        share, count = _share(result, golden, side)
        plain = max((abs(_share(one, golden, side)[0]) for one in eager), default=0.0)
        if count >= _FEW and abs(share) * math.sqrt(count) >= _DEVIATIONS and abs(share) >= max(_ONE_SIDED, 2 * plain):
            where = words[0 if share > 0 else 1]
            part = f"{(1 + abs(share)) / 2:.0%} of the {count} errors"
            return f"{part} lie {where} than the golden: a truncation, or a factor"
    return ""


def _share(values: Array, golden: Golden, side: Golden) -> tuple[float, int]:
    """Return the share of errors to a side of the golden less those to the other, and the number of errors."""
    errors = (golden - values.astype(np.float64)) * side
    one, other = int(np.count_nonzero(errors > 0)), int(np.count_nonzero(errors < 0))
    return ((one - other) / (one + other), one + other) if one + other else (0.0, 0)


def far_eager(result: Array, golden: Golden, eager: list[Array], conditioning: float, steps: int) -> str:
    """Return a sentence if the budget follows from plain code that is far off by itself."""
    growth, step = math.sqrt(steps), _step(result)
    for one in eager:
        off, same = _off(one, golden), np.array_equal(one, result)
        times = _FAR_AND_SAME if same else _FAR if step <= _FP32 else _FAR_AND_NARROW
        if off > growth * max(times * step, _MOVED * conditioning):
            words = "is the result bit by bit, and " if same else ""
            return (
                f"eager {words}is {off / (growth * step):.0f} rounding errors off: the budget follows from its error. "
                "Say why: source="
            )
    return ""


def far_nudged(golden: Golden, nudged: list[Golden]) -> str:
    """Return a sentence if inputs that are off by a rounding error move the golden far."""
    off = max((_off(one, golden) for one in nudged), default=0.0) / _FP32
    if off <= _FAR:
        return ""
    return f"nudged is {off:.0f} rounding errors of fp32 off: the budget follows from it. Say why: source="


def _off(values: Array | Golden, golden: Golden) -> float:
    """Return how far values are off: all of them, or the worst one by the largest value of the golden."""
    near, largest = distance(values, golden), float(np.abs(golden).max(initial=0.0))
    return max(near.rel_fro, near.max_abs / largest if largest else 0.0)


def wide_budget(golden: Golden, max_abs: float, rel_fro: float) -> str:
    """Return a sentence if a declared budget lets nearly any result pass."""
    sizes = np.sort(np.abs(golden[golden != 0]))
    small, norm = sizes[: int(_MOST_ZERO * len(sizes))], float(np.linalg.norm(sizes))
    if small.size and small[-1] <= max_abs and float(np.linalg.norm(small)) <= rel_fro * norm:
        return f"the budget {max_abs:.3g} lets zeros pass in {_MOST_ZERO:.0%} of the elements: give eager="
    if sizes.size and sizes[-1] <= _HALF * max_abs and rel_fro > _COARSE:
        return f"the budget {max_abs:.3g} is as large as the golden, {sizes[-1]:.3g}: give eager=, or relative="
    return ""


def _step(values: Array) -> float:
    """Return the distance from 1 to the next number of a dtype."""
    return float(ml_dtypes.finfo(values.dtype).eps)  # type: ignore[no-untyped-call]


def unwritten_zeros(result: Array, golden: Golden, eager: list[Array]) -> str:
    """Return a sentence if lines along an axis that are exactly zero in the golden and in plain code are not.

    One element may be zero by luck. What nobody has written often holds whole numbers, subnormal numbers as floats.
    """
    if golden.ndim < 2 or not golden.any():
        return ""
    zero = (golden == 0) & np.all([one.astype(np.float64) == 0 for one in eager], axis=0)
    held = np.where(zero, np.abs(result.astype(np.float64)), 0.0)
    least = float(np.abs(golden[golden != 0]).min()) * 2.0**-24
    wrong = (held > least) | ((held > 0) & (held < float(np.finfo(np.float32).tiny)))
    for axis in reversed(range(golden.ndim)):
        if count := int((zero.all(axis=axis) & wrong.any(axis=axis)).sum()):
            name = "rows" if axis == golden.ndim - 1 else f"lines along axis {axis}"
            return f"{count} {name} that must be zero hold up to {held.max():.3g}: they were not written"
    return ""
