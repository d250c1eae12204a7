"""Take an array of any framework as one of NumPy's, without importing the framework."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from kernel_matrix.job.inputs import Array

# The narrow types that NumPy does not have itself, by the names that libraries of arrays share.
NARROW = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def as_numpy(value: Any) -> Array:
    """Return an array, or a number, as an array of NumPy in the same dtype.

    It may be NumPy's own, one with ``detach`` and ``cpu`` (a tensor that may have a gradient or lie on a GPU), one with
    ``get`` (on a GPU), one with ``__array__``, or one with ``__dlpack__``.

    Raises:
        TypeError: it is none of these, or hides elements behind a mask.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(
            f"{int(np.ma.getmaskarray(value).sum())} elements are masked, so nobody compares them: give .filled()"
        )
    if isinstance(value, np.ndarray):
        plain = np.asarray(value)  # a subclass may compute otherwise
        return plain if plain.dtype.isnative else plain.astype(plain.dtype.newbyteorder("="))
    for method in ("detach", "cpu"):
        if callable(getattr(value, method, None)):
            value = getattr(value, method)()
    name = str(getattr(value, "dtype", "")).rpartition(".")[2]
    if name in NARROW and callable(getattr(value, "float", None)):
        return np.asarray(
            np.asarray(value.float()).astype(getattr(ml_dtypes, name))
        )  # fp32 holds each of these exactly
    if hasattr(value, "__cuda_array_interface__") and callable(getattr(value, "get", None)):
        value = value.get()
    try:
        array = np.asarray(value)
    except (TypeError, RuntimeError, BufferError, ValueError):
        array = np.asarray(np.from_dlpack(value)) if hasattr(value, "__dlpack__") else np.empty(0, object)
    if array.dtype == object:
        raise TypeError(f"{type(value).__name__} is no array: give one of NumPy, or one with __array__ or __dlpack__")
    return array


def as_floats(value: Any, what: str) -> Array:
    """Return an array of floating-point numbers.

    Raises:
        TypeError: its elements are something else.
    """
    array = as_numpy(value)
    try:
        if array.dtype.kind == "c":
            raise ValueError("a complex number has no order")
        ml_dtypes.finfo(array.dtype)  # type: ignore[no-untyped-call]
    except ValueError:
        raise TypeError(
            f"{what} has the dtype {array.dtype}: compare() is for floating-point numbers. Assert others yourself."
        ) from None
    return array
