"""The comparisons of NumPy, and arrays that are NumPy's or become so."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.suite_canaries.faults import Wide


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numbers, or a number of an array's dtype."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def part(value: Any, index: Any = ...) -> Any:
    """Return a copy of a part of an array; all without an index, and a number by itself as it is."""
    return value if isinstance(value, np.generic) else _plain(value)[index].copy()


def place(value: Any) -> Any:
    """Return what two arrays have in common that are the same elements in the same order; nothing for others."""
    if not isinstance(value, np.ndarray):
        return None
    strides = value.flags.c_contiguous or [*zip(value.shape, value.strides, strict=True)]
    return value.__array_interface__["data"][0], value.itemsize, value.size, strides


def spread(value: Any, shape: tuple[int, ...]) -> Any:
    """Return an array as one that has another shape, where each of its elements stands for several."""
    return np.broadcast_to(_plain(value), shape)


def flat(value: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of a shape as one row of its elements."""
    return spread(value, shape).reshape(-1)


def taken(row: Any, places: list[int]) -> Any:
    """Return some elements of a row."""
    return row[places]


def sizes(row: Any) -> Any:
    """Return the magnitude of each element of a row."""
    return np.abs(row if row.dtype.kind in "fc" else row.astype(np.float64))


def wide(value: Any) -> Wide:
    """Return an array as float64, or as complex numbers of it."""
    array = np.asarray(value)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def native(values: Wide, like: Any) -> Any:
    """Return numbers as an array of the dtype and the shape that another one has."""
    array = np.asarray(values).reshape(np.shape(like)).astype(np.asarray(like).dtype)
    return array[()] if isinstance(like, np.generic) else array


def dtype_of(value: Any) -> str:
    """Return the name of an array's dtype."""
    return str(np.asarray(value).dtype.name)


def _plain(value: Any) -> npt.NDArray[Any]:
    """Return an array without its subclass.

    Raises:
        TypeError: a mask says which of its elements count.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array")
    return np.asarray(value)
