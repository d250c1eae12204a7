"""The values that an operator's arrays are drawn with; the case's name determines them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import DTYPES, Array
from kernel_matrix.kit.description import Operator, array

Arrays = dict[str, Array]
_DTYPES = {**DTYPES, "fp8": np.dtype(ml_dtypes.float8_e4m3fn)}
_LOUD, _QUIET = 100.0, 1e-3  # times the other rows


def dtype_of(kind: array, axes: Mapping[str, Any]) -> np.dtype[np.generic]:
    """Return the dtype of an array in a case."""
    name = str(axes.get("dtype", "fp32")) if kind.dtype == "case" else kind.dtype
    return _DTYPES[name] if name in _DTYPES else np.dtype(name)


def is_whole(values: Array) -> bool:
    """Return whether the elements are whole numbers."""
    return values.dtype.kind in "iub"


def drawn(case: RunningCase, op: Operator, sizes: Mapping[str, Any], which: str = "") -> Arrays:
    """Return the inputs, and of a backward the gradients that come in; ``which`` names another draw."""
    arrays = {**op.inputs_of(sizes), **(op.incoming if op.differentiable and case.direction == "backward" else {})}
    given = dict(op.draw(sizes, which)) if op.draw else {}
    values: Arrays = {}
    for name, kind in arrays.items():
        values[name] = given[name] if name in given else _one(case, name + which, kind, sizes, values)
    return values


def _one(case: RunningCase, name: str, kind: array, sizes: Mapping[str, Any], before: Mapping[str, Array]) -> Array:
    shape, dtype = kind.shape(sizes), dtype_of(kind, case.axes)
    if kind.whole:
        below = sizes[kind.below] if isinstance(kind.below, str) else 2 if kind.below is None else kind.below
        spread = (np.abs(case.draw(name, shape)) * 2.0**20).astype(np.int64)
        return (spread % max(int(below), 1)).astype(dtype)
    if kind.saved is not None:
        return np.asarray(kind.saved(before, sizes)).astype(dtype)
    values = case.draw(name, shape, scale=kind.spread(sizes), mean=kind.mean)
    if kind.drawn is not None:
        values = kind.drawn(values, sizes)
    return np.asarray(np.abs(values) if kind.positive else values).astype(dtype)


def saved_anew(op: Operator, values: Mapping[str, Array], sizes: Mapping[str, Any]) -> Arrays:
    """Return the values, where the forward has saved anew what a backward gets of it."""
    changed = dict(values)
    for name, kind in op.inputs.items():
        if kind.saved is not None and name in values:
            changed[name] = np.asarray(kind.saved(changed, sizes)).astype(values[name].dtype)
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


def standing_out(values: Array) -> Array:
    """Return rows of which the first is zero, the second small, and the last large."""
    if not is_whole(values) and len(values):
        values[1:2] = (values[1:2].astype(np.float64) * _QUIET).astype(values.dtype)
        values[-1:] = (values[-1:].astype(np.float64) * _LOUD).astype(values.dtype)
        values[:1] = 0 if len(values) > 1 else values[:1]
    return values
