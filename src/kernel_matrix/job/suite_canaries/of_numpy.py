"""The comparisons of NumPy, and arrays that are NumPy's or become so."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_matrix.job.suite_canaries.faults import Wide


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numbers, or a number of an array's dtype."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def part(value: Any, lead: tuple[int, ...] | None, rows: Any, columns: int) -> Any:
    """Return an array with some of its rows, and so many of their first columns; all without ``lead``.

    Raises:
        TypeError: a mask says which of its elements count.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array")
    array = np.asarray(value)
    return array.copy() if lead is None else array[np.unravel_index(rows, lead)][:, :columns].copy()


def wide(value: Any) -> Wide:
    """Return an array as float64."""
    return np.asarray(value).astype(np.float64)


def native(values: Wide, like: Any) -> Any:
    """Return numbers as an array of the dtype that another one has."""
    return values.astype(np.asarray(like).dtype)


def dtype_of(value: Any) -> str:
    """Return the name of an array's dtype."""
    return str(np.asarray(value).dtype.name)
