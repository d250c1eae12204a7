"""Samples of one output from several machines -> their distances from each other in ULP. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kernel_matrix.job.accuracy import ordered
from kernel_matrix.job.inputs import DTYPES, Array
from kernel_matrix.job.sample import positions
from kernel_matrix.store.record import Sample

# Below the output's largest value times 2**-SHIFT, a ULP is the ULP of this value. A sum is off by a rounding error of
# its summands. Where they cancel, that is many ULP of the small sum, and says nothing of the one who summed.
SHIFT = 4

_positions = lru_cache(maxsize=256)(positions)  # many pairs differ in the same output of the same case

Distances = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Divergence:
    """The first sampled position at which two outputs have other bits: its index in the output, and both values."""

    index: tuple[int, ...]
    one: float
    other: float


@dataclass(frozen=True)
class Distance:
    """The distance of two samples: over all sampled elements the median, the 99th percentile and the maximum, in ULP.

    ``identical`` says that the outputs have the same bits as a whole, and ``sample_identical`` that their samples have.
    """

    compared: int
    median: float
    p99: float
    largest: float
    identical: bool
    sample_identical: bool
    first: Divergence | None


def values_of(sample: Sample) -> Array:
    """Return the sampled elements, in the dtype of the output."""
    dtype = DTYPES[sample.dtype]
    return np.frombuffer(sample.bits, f"<i{dtype.itemsize}").astype(f"i{dtype.itemsize}").view(dtype)


def stacked(samples: Sequence[Sample]) -> Array:
    """Return the elements of samples with the same dtype and shape, one member a row."""
    return np.stack([values_of(sample) for sample in samples])


def largest_of(sample: Sample) -> float:
    """Return the largest absolute value of the sampled elements that are finite; 0 if there is none."""
    values = values_of(sample).astype(np.float64)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def measure(key: str, output: str, one: Sample, other: Sample) -> Distance:
    """Return the distance of two samples of one output; ``key`` is ``op.direction/name`` of the case.

    Raises:
        ValueError: the outputs have another dtype or shape.
    """
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        raise ValueError(f"{output} is {in_words(one)} on one side and {in_words(other)} on the other")
    both = stacked([one, other])
    median, p99, largest = quantiles(between_all(both))[:, 0, 1].tolist() if both.size else (0.0, 0.0, 0.0)
    first = first_divergence(key, output, one, other)
    same_sample = one.bits == other.bits
    return Distance(both.shape[1], median, p99, largest, same_sample and one.sha256 == other.sha256, same_sample, first)


def first_divergence(key: str, output: str, one: Sample, other: Sample) -> Divergence | None:
    """Return where two samples differ first; None if they do not."""
    itemsize = DTYPES[one.dtype].itemsize
    different = np.flatnonzero(np.frombuffer(one.bits, f"<i{itemsize}") != np.frombuffer(other.bits, f"<i{itemsize}"))
    if not different.size:
        return None
    place = int(different[0])
    index = np.unravel_index(int(_positions(key, output, one.shape)[place]), one.shape)
    return Divergence(tuple(map(int, index)), float(values_of(one)[place]), float(values_of(other)[place]))


def between_all(values: Array) -> Distances:
    """Return the distances between all members, element by element, in ULP: of (members, elements) all pairs.

    The distance is the number of steps from one value to the other in the dtype, as if the dtype had no smaller steps
    than the steps at the output's largest value times 2**-``SHIFT``. The member's own largest value counts where it is
    smaller, so that one with huge values does not hide its distance. NaN is 0 from NaN, and infinitely far from the
    rest, as infinity is.
    """
    members = len(values)
    one, other = np.triu_indices(members, 1)
    wide, numbers = values.astype(np.float64), ordered(values)
    finite = np.isfinite(wide)
    magnitude = np.abs(np.where(finite, wide, 0.0)).max(axis=1)
    step = _smallest_step(values.dtype, np.minimum(magnitude[one], magnitude[other]))
    a, b = wide[one], wide[other]
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.minimum(_steps(numbers[one], numbers[other]), np.abs(a - b) / step[:, None])
    far[~(finite[one] & finite[other])] = np.inf
    far[(np.isnan(a) & np.isnan(b)) | (a == b)] = 0.0
    distances = np.zeros((members, members, values.shape[1]))
    distances[one, other] = distances[other, one] = far
    return distances


def in_steps(dtype: str, error: float, largest: float) -> float:
    """Return an error in ULP that the dtype has at ``largest``."""
    limits = ml_dtypes.finfo(DTYPES[dtype])  # type: ignore[no-untyped-call]
    return error / math.ldexp(1.0, math.frexp(largest)[1] - 1 - int(limits.nmant))


def quantiles(distances: Distances) -> Distances:
    """Return the median, the 99th percentile and the maximum over the last axis, as a new first axis."""
    ascending = np.sort(distances, axis=-1)
    last = ascending.shape[-1] - 1
    return np.stack([ascending[..., int(np.ceil(share * last))] for share in (0.5, 0.99, 1.0)])


def in_words(sample: Sample) -> str:
    """Return the dtype and the shape, such as ``bf16 [7, 4]``."""
    return f"{sample.dtype} {list(sample.shape)}"


def _smallest_step(dtype: np.dtype[np.generic], largest: Distances) -> Distances:
    """Return the step of the dtype at ``largest`` times 2**-``SHIFT``, and never less than its smallest number."""
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    smallest = float(limits.smallest_subnormal)
    _, exponent = np.frexp(np.maximum(largest, smallest))
    step: Distances = np.maximum(np.ldexp(1.0, exponent - 1 - SHIFT - int(limits.nmant)), smallest)
    return step


def _steps(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> Distances:
    """Return the distances of integers as floats; distances of float64 are too large for a difference of integers."""
    rough = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return np.where(rough < 2.0**60, np.abs(one - other).astype(np.float64), rough)
