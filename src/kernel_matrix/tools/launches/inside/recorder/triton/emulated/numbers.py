"""Round numbers of float64 to the dtypes of Triton, and read and write their bits. A dtype is known by its name."""

from __future__ import annotations

from typing import Any

import numpy as np

_BITS: dict[str, Any] = {"fp64": np.uint64, "fp32": np.uint32, "fp16": np.uint16, "bf16": np.uint16}
_AS_NUMPY: dict[str, Any] = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}
_HALF = 16  # bits of bf16: the upper ones of fp32


def rounded(values: Any, dtype: Any) -> Any:
    """Return float64 rounded to nearest, ties to even, to the numbers that the dtype has."""
    if dtype.name in _AS_NUMPY:
        return values.astype(_AS_NUMPY[dtype.name]).astype(np.float64)
    return of_bits(to_bits(values, dtype), dtype)


def to_bits(values: Any, dtype: Any) -> Any:
    """Return the bits of float64 that is rounded to the dtype.

    Raises:
        NotImplementedError: it is a dtype of one byte.
    """
    if dtype.name in _AS_NUMPY:
        return np.ascontiguousarray(values.astype(_AS_NUMPY[dtype.name])).view(_BITS[dtype.name])
    if dtype.name != "bf16":
        raise NotImplementedError(f"numbers of {dtype.name}")
    nearest = np.ascontiguousarray(values.astype(np.float32))
    bits = nearest.view(np.uint32)
    # To fp32 it is rounded to odd, so that the second rounding is the only one that shows.
    cut = bits - (np.abs(nearest) > np.abs(values)).astype(np.uint32)
    odd = np.where(np.isfinite(nearest), cut | (nearest != values).astype(np.uint32), bits)
    up = np.where(np.isnan(nearest), 0, 0x7FFF + (odd >> _HALF & 1)).astype(np.uint32)
    return ((odd + up) >> _HALF).astype(np.uint16)


def of_bits(bits: Any, dtype: Any) -> Any:
    """Return the numbers that bits mean, as float64.

    Raises:
        NotImplementedError: it is a dtype of one byte.
    """
    if dtype.name == "bf16":
        wide = bits.view(np.uint16).astype(np.uint32) << np.uint32(_HALF)
        return _widened(wide.view(np.float32))
    if dtype.name not in _AS_NUMPY:
        raise NotImplementedError(f"numbers of {dtype.name}")
    return _widened(bits.view(_AS_NUMPY[dtype.name]))


def _widened(values: Any) -> Any:
    with np.errstate(invalid="ignore"):  # memory that nobody has written may hold signalling NaNs
        return values.astype(np.float64)
