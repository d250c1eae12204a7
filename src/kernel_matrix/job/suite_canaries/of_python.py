"""Python's numbers, and lists of them: they have no dtype, and a function gets them as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_matrix.job.suite_canaries.faults import Wide
from kernel_matrix.job.suite_canaries.of_numpy import flat, sizes, spread, wide

__all__ = ["dtype_of", "flat", "is_number", "native", "part", "sizes", "spread", "taken", "wide"]


def is_number(value: Any) -> bool:
    """Return whether a value is a number, or a list of them; a truth is none."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def part(value: Any, *_: Any) -> Any:
    """Return numbers as they are: a long list is an array before."""
    return value


def taken(row: Any, places: list[int]) -> Any:
    """Return some numbers of a row as a list."""
    return row[places].tolist()


def native(values: Wide, like: Any) -> Any:
    """Return numbers as one, or as lists of the shape that others have."""
    array = np.asarray(like)
    return values.reshape(array.shape).astype(array.dtype).tolist()


def dtype_of(value: Any) -> str:
    """Return the dtype that numbers can have had: whole ones int64, and fp32 where that holds each of them."""
    array = np.asarray(value)
    if array.dtype.kind == "i":
        return "int64"
    narrow = np.array_equal(array.astype(np.complex64), array, equal_nan=True)
    return ("complex64" if narrow else "complex128") if array.dtype.kind == "c" else "float32" if narrow else "float64"
