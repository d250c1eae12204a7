"""The values that an operator's arrays are drawn with; the case's name determines them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import DTYPES, Array
from kernel_matrix.kit.description import Operator, array

Arrays = dict[str, Array]
_DTYPES = {**DTYPES, "fp8": np.dtype(ml_dtypes.float8_e4m3fn)}
_LOUD, _QUIET = 100.0, 1e-3  # times the other rows
_FAR_BELOW = 256.0  # times the spread: exp of half of it is no number of fp32, and its square none of fp16


def dtype_of(kind: array, axes: Mapping[str, Any]) -> np.dtype[np.generic]:
    """Return the dtype of an array in a case."""
    name = str(axes.get("dtype", "fp32")) if kind.dtype == "case" else kind.dtype
    return _DTYPES[name] if name in _DTYPES else np.dtype(name)


def is_whole(values: Array) -> bool:
    """Return whether the elements are whole numbers."""
    return values.dtype.kind in "iub"


def drawn(
    case: RunningCase, op: Operator, sizes: Mapping[str, Any], which: str = "", given: Mapping[str, Array] | None = None
) -> Arrays:
    """Return the inputs, and of a backward the gradients that come in; ``which`` names another draw.

    What is ``given`` is not drawn.
    """
    arrays = {
        **op.inputs_of(sizes),
        **(op.incoming_of(sizes) if op.differentiable and case.direction == "backward" else {}),
    }
    given = dict(given or {})
    if op.draw and not given.keys() >= op.inputs_of(sizes).keys():
        given = dict(op.draw(sizes, which)) | given
    values: Arrays = {}
    saved = functools.cache(lambda function: function(values, sizes))  # one may save several arrays
    for name, kind in arrays.items():
        if name in given:
            values[name] = given[name]
        elif kind.saved is not None:
            values[name] = _kept(name, saved(kind.saved)).astype(dtype_of(kind, case.axes))
        else:
            values[name] = _one(case, name + which, kind, sizes)
    return values


def _kept(name: str, saved: Any) -> Array:
    """Return the array of this name, where a forward has saved several."""
    return np.asarray(saved[name] if isinstance(saved, Mapping) else saved)


def _one(case: RunningCase, name: str, kind: array, sizes: Mapping[str, Any]) -> Array:
    shape, dtype = kind.shape(sizes), dtype_of(kind, case.axes)
    if kind.whole:
        below = sizes[kind.below] if isinstance(kind.below, str) else 2 if kind.below is None else kind.below
        spread = (np.abs(case.draw(name, shape)) * 2.0**20).astype(np.int64)
        whole = spread % max(int(below), 1)
        if whole.size > 1:
            whole.flat[0], whole.flat[-1] = 0, max(int(below), 1) - 1  # both ends of a table
        return whole.astype(dtype)
    values = case.draw(name, shape, scale=kind.spread(sizes), mean=kind.mean)
    if kind.drawn is not None:
        values = kind.drawn(values, sizes)
    return np.asarray(np.abs(values) if kind.positive else values).astype(dtype)


def saved_anew(op: Operator, values: Mapping[str, Array], sizes: Mapping[str, Any]) -> Arrays:
    """Return the values, where the forward has saved anew what a backward gets of it."""
    changed = dict(values)
    saved = functools.cache(lambda function: function(changed, sizes))
    for name, kind in op.inputs.items():
        if kind.saved is not None and name in values:
            changed[name] = _kept(name, saved(kind.saved)).astype(values[name].dtype)
    return changed


def wide(values: Mapping[str, Array]) -> Arrays:
    """Return the values in float64; whole numbers as they are."""
    return {name: one if is_whole(one) else one.astype(np.float64) for name, one in values.items()}


def nudged(case: RunningCase, values: Mapping[str, Array], draw: int) -> Arrays:
    """Return the values in float64, each off by one rounding error of fp32."""
    return {n: one if is_whole(one) else case.nudge(n, one.astype(np.float64), draw) for n, one in values.items()}


def rounded_like(values: Mapping[str, Array], model: Mapping[str, Array]) -> Arrays:
    """Return the values in the dtypes of others."""
    return {name: one.astype(model[name].dtype) for name, one in values.items()}


def of_rows(values: Mapping[str, Array], names: list[str], change: Any) -> Arrays:
    """Return the values, where ``change`` has been called with a copy of each of these arrays."""
    changed = dict(values)
    for name in names:
        if name in values:
            changed[name] = change(values[name].copy())
    return changed


def _standing_out(*, zero: bool = True, low: bool = True) -> Callable[[Array], Array]:
    """Return what makes rows: the first zero, the second small, the third far below zero, and the last large."""

    def change(values: Array) -> Array:
        if is_whole(values) or not len(values):
            return values
        wide = values.astype(np.float64)
        if low and len(values) > 3 and (wide < 0).any():
            values[2:3] = (wide[2:3] - _FAR_BELOW * wide.std()).astype(values.dtype)
        values[1:2] = (wide[1:2] * _QUIET).astype(values.dtype)
        values[-1:] = (wide[-1:] * _LOUD).astype(values.dtype)
        if zero and len(values) > 1:
            values[:1] = 0
        return values

    return change


# What changes rows, each with what it makes of them: the first that plain code takes is used.
STANDING_OUT: Mapping[Callable[[Array], Array], str] = {
    _standing_out(): "a row of zeros, a small one, one far below zero and a large one",
    _standing_out(low=False): "a row of zeros, a small one and a large one",
    _standing_out(zero=False, low=False): "a small row and a large one",
}
