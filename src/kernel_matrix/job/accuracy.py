"""Measure how far a result is from its float64 golden, and say how far it may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.budget import Pair, limits
from kernel_matrix.job.inputs import Array

Golden = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Distance:
    """The part of the distance of one output from its golden that a budget and the noise behind it need.

    ``max_abs`` is in the output's unit. ``rel_fro`` is the Frobenius norm of the difference over the norm of the
    golden. ``misrounded`` is the share of the elements that differ from the golden rounded to the output's dtype.
    ``nan`` and ``inf`` count such elements; the other figures are over the finite ones. ``elements`` is the number of
    all elements.
    """

    elements: int
    nan: int
    inf: int
    max_abs: float
    rel_fro: float
    misrounded: float


@dataclass(frozen=True)
class Errors(Distance):
    """All figures of the distance of one output from its golden.

    ``mean_abs`` is in the output's unit. ``ulp_*`` count representable values of the output's dtype between the result
    and the golden rounded to it. ``cosine`` is 1 - cos of the angle between the two.
    """

    mean_abs: float
    ulp_median: float
    ulp_p99: float
    ulp_max: float
    cosine: float

    def metrics(self, output: str) -> dict[str, float]:
        """Return the figures by name, such as ``{"out.max_abs": 1e-7, ...}``."""
        return {f"{output}.{name}": getattr(self, name) for name in FIGURES}


FIGURES = tuple(one.name for one in fields(Errors))


@dataclass(frozen=True)
class Budget:
    """The largest error that one output may have: ``max_abs`` in its unit, ``rel_fro`` relative."""

    max_abs: float
    rel_fro: float

    def faults(self, errors: Distance) -> list[str]:
        """Return the figures outside the budget, in words; none when all are inside."""
        outside = []
        if errors.elements == 0:
            outside.append("no element was compared")
        if errors.nan or errors.inf:
            outside.append(f"{errors.nan} NaN and {errors.inf} Inf in {errors.elements} elements")
        if not errors.max_abs <= self.max_abs:
            outside.append(f"max_abs {errors.max_abs:.3g} is over {self.max_abs:.3g}")
        if not errors.rel_fro <= self.rel_fro:
            outside.append(f"rel_fro {errors.rel_fro:.3g} is over {self.rel_fro:.3g}")
        return outside


def measure(result: Array, golden: Golden) -> Errors:
    """Compare ``result`` (fp16, bf16, fp32 or float64) with ``golden`` (float64, finite) of the same shape.

    Raises:
        ValueError: the shapes differ, or the golden is not float64 or not finite.
    """
    near, pair = _compared(result, golden)
    if pair is None:
        far = math.inf if result.size else 0.0
        return Errors(**dict.fromkeys(FIGURES, far) | vars(near))
    steps = np.abs(ordered(pair.result) - ordered(pair.rounded))
    median, p99 = np.quantile(steps, [0.5, 0.99], method="higher")
    return Errors(
        **vars(near),
        mean_abs=float(pair.difference.mean()),
        ulp_median=float(median),
        ulp_p99=float(p99),
        ulp_max=float(steps.max()),
        cosine=_cosine_distance(pair.wide, pair.golden),
    )


def distance(result: Array, golden: Golden) -> Distance:
    """Return the part of :func:`measure` that a budget needs. The rest takes most of the time.

    Raises:
        ValueError: the shapes differ, or the golden is not float64 or not finite.
    """
    return _compared(result, golden)[0]


class _Pair(NamedTuple):
    """The finite elements of a result, as they are and in float64, and what belongs to them."""

    result: Array
    wide: Golden
    golden: Golden
    rounded: Array
    difference: Golden


def _compared(result: Array, golden: Golden) -> tuple[Distance, _Pair | None]:
    """Return the distance, and the finite elements, or None where there are none."""
    if result.shape != golden.shape:
        raise ValueError(f"the result has shape {result.shape} and the golden {golden.shape}")
    if golden.dtype != np.float64 or not np.isfinite(golden).all():
        raise ValueError(f"the golden must be finite float64; it is {golden.dtype}")
    wide = result.astype(np.float64)
    finite = np.isfinite(wide)
    all_finite = bool(finite.all())

    def chosen(values: Array) -> Any:
        return values.reshape(-1) if all_finite else values[finite]  # a view is five times as fast as a copy

    nan, inf = (0, 0) if all_finite else (int(np.isnan(wide).sum()), int(np.isinf(wide).sum()))
    compared, expected = chosen(wide), chosen(golden)
    if compared.size == 0:
        far = math.inf if result.size else 0.0
        return Distance(result.size, nan, inf, far, far, float(result.size > 0)), None
    difference = np.abs(compared - expected)
    pair = _Pair(chosen(result), compared, expected, correctly_rounded(expected, result.dtype), difference)
    near = Distance(
        elements=result.size,
        nan=nan,
        inf=inf,
        max_abs=float(difference.max()),
        rel_fro=_ratio(float(np.linalg.norm(difference)), float(np.linalg.norm(expected))),
        misrounded=float(np.count_nonzero(pair.result != pair.rounded) / compared.size),
    )
    return near, pair


def noise_ratio(errors: Distance, floor: Distance) -> float | None:
    """Return the kernel's error over the baseline's; None if the baseline has none, or one is not finite."""
    if not floor.rel_fro or not math.isfinite(floor.rel_fro) or not math.isfinite(errors.rel_fro):
        return None
    return errors.rel_fro / floor.rel_fro


def correctly_rounded(golden: Golden, dtype: np.dtype[np.generic]) -> Array:
    """Return ``golden`` rounded once to ``dtype``, to nearest, ties to even.

    ``astype`` of ml_dtypes rounds twice: to fp32 and then to bf16. A value just above the middle between two values of
    bf16 becomes that middle in fp32, and then the lower one. So the step to fp32 rounds to odd here: towards zero, with
    the last bit set where something was cut off. fp32 has more than two bits beyond the narrow dtypes, so only the
    second rounding shows (Boldo and Melquiond, Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using
    Rounding to Odd, 2008).
    """
    with np.errstate(over="ignore"):  # beyond the largest value it is Inf
        if dtype.itemsize >= 4:
            return golden.astype(dtype)
        nearest = golden.astype(np.float32)
        toward_zero = nearest.view(np.uint32) - (np.abs(nearest) > np.abs(golden)).astype(np.uint32)
        odd = toward_zero | (nearest != golden).astype(np.uint32)
        return np.asarray(odd.view(np.float32).astype(dtype))


def worst(samples: Sequence[Distance]) -> Distance:
    """Return the largest of each figure: the error of few elements can be small by luck in one sample."""
    return Distance(**{name: max(getattr(near, name) for near in samples) for name in Distance.__dataclass_fields__})


def budget(
    floor: Distance,
    conditioning: Distance,
    golden: Golden,
    dtype: np.dtype[np.generic],
    *,
    steps: int,
    factor: float,
    rounded: float,
    ulps: float,
    cap: float,
) -> Budget:
    """Return ``min(cap, max(factor × noise, √steps × conditioning))`` for one output of ``dtype``.

    The noise is the largest of three. ``floor`` is the error that the baseline makes in the same dtype on the same
    inputs, or on copies of them that are off by one rounding error, so that it is not the luck of one draw.
    ``conditioning`` is how far the golden moves when every input is off by one rounding error of fp32, the dtype that
    every backend computes in. ``ulps`` are steps of fp32 at the golden's largest value. ``cap`` is absolute, in the
    output's unit. ``steps`` is how many rounded operations follow each other: the length of a sum, or of a chain of
    quotients. ``rounded`` is the factor of the Frobenius norm for an output narrower than fp32. The comment at the end
    of this module says why.
    """
    allowed = limits(
        Pair(floor.max_abs, floor.rel_fro),
        Pair(conditioning.max_abs, conditioning.rel_fro),
        largest=float(np.abs(golden).max(initial=0.0)),
        itemsize=dtype.itemsize,
        steps=steps,
        factor=factor,
        rounded=rounded,
        ulps=ulps,
        cap=cap,
    )
    return Budget(allowed.max_abs, allowed.rel_fro)


def ordered(values: Array) -> npt.NDArray[np.int64]:
    """Return floats as integers in the same order, neighbours one apart, both zeros at 0."""
    bits = np.ascontiguousarray(values).view(f"<i{values.dtype.itemsize}").astype(np.int64)
    if values.dtype.itemsize == 8:
        return np.where(bits < 0, -(bits & 0x7FFFFFFFFFFFFFFF), bits)
    magnitude = (1 << (8 * values.dtype.itemsize - 1)) - 1
    return np.where(bits < 0, -(bits & magnitude), bits)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else (math.inf if part else 0.0)


def _cosine_distance(a: Golden, b: Golden) -> float:
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    if norms == 0.0:
        return 0.0 if not a.any() and not b.any() else 1.0
    return max(0.0, 1.0 - float(np.dot(a.ravel(), b.ravel())) / norms)


# Why a budget is made so:
#
# The baseline's error alone is no measure. Of few elements it can be zero by luck. Where large summands cancel, another
# order of summation is off by a rounding error of the summands, which the small sum does not show. An algorithm is
# backward stable when it gives the exact result of inputs that are off by a few rounding errors (Higham, Accuracy and
# Stability of Numerical Algorithms, chapter 1): hence the conditioning.
#
# The errors of operations that follow each other add up to about √steps of one (Higham and Mary, A New Approach to
# Probabilistic Rounding Error Analysis, 2019). A baseline that sums pairwise is off by far less.
#
# The error of an output narrower than fp32 is the rounding at its end, which is the same for every kernel that sums in
# fp32. Over all elements, as the Frobenius norm has it, no more than ``rounded`` times the baseline's error is allowed.
# A kernel that sums in the narrow dtype is beyond that.
