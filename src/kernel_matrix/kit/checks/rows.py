"""Rows: NaN and Inf in some of them, other numbers of them, large and small ones; and arrays that are not packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from kernel_matrix.job.inputs import Array
from kernel_matrix.job.kernel_process import KernelProcessError
from kernel_matrix.kit import draws, plain
from kernel_matrix.kit.layouts import repeated, same_bytes
from kernel_matrix.kit.misbehaviour import WrongResultError
from kernel_matrix.kit.running import Running

FEW = (0, 1, 2, 127, 128, 130)  # the remainders -1, 0 and 2 of tiles of 4 to 128, and parts of one
OTHER = (1, 65, 66)  # of another axis that is free: the remainders 1 and 2 of vectors and tiles of 4 to 64
_SQUARE = 512  # rows: as many as the other axis has, where it is no longer
_MANY = 65_541  # more than 16 bits count, and than a GPU's grid has blocks in its second dimension
_MANY_BYTES = 256 << 20  # of the inputs of so many rows
_SUM_BYTES = 64 << 20  # of those whose sums are compared: plain code in float64 takes several times as much
_ULPS, _ULPS_NARROW = 64, 4  # of the largest value; narrow dtypes are rounded once from fp32
_SUM = (
    0.05  # of the largest value: more rows in one chain are less exact, and a part of them that is missing is far off
)


def rows(running: Running) -> None:
    """Put Inf, and then NaN, into all rows but one: its results stay, and NaN comes out where plain code has it."""
    keep = int(running.sizes[running.op.rows or ""]) // 2
    for word, number in (("Inf", np.inf), ("NaN", np.nan)):

        def spoilt(one: Array, number: float = number) -> Array:
            if not draws.is_whole(one):
                one[:keep], one[keep + 1 :] = number, number
            return one

        values = draws.of_rows(running.given, running.by_row, spoilt)
        out = running.run(values, what=f" with {word} in the other rows")
        for name in running.results_by_row:
            _hold_row(running, name, out[name], keep, word)
    _hold_nan(running, values, out, "numbers where the inputs of a row are NaN")  # which came last
    if running.case.direction != "backward":
        _single_elements(running)


def _hold_nan(running: Running, values: draws.Arrays, out: draws.Arrays, what: str) -> None:
    """Hold the results to NaN where plain code has it."""
    expected = plain.exact(running.op, draws.wide(values), running.sizes, running.asked)
    for name in running.results_by_row:
        wrong = np.isnan(expected[name]) & ~np.isnan(out[name].astype(np.float64))
        if wrong.any():  # plain code in fp32 may have none either: a library leaves padding out, which is 0 times NaN
            wrong &= np.isnan(running.baseline(values)[name].astype(np.float64))
        if wrong.any():
            raise WrongResultError("kit-rows", f"{name}: {int(wrong.sum())} {what}")


def _single_elements(running: Running) -> None:
    """Put NaN into one element of each input that has no rows; and -Inf, as of a mask, into one element of a row."""
    others = [name for name, one in running.given.items() if name not in running.by_row and not draws.is_whole(one)]
    places = {name: place for place, name in enumerate(others)}
    if places:
        values = {n: _with_one(one, np.nan, places[n]) if n in places else one for n, one in running.given.items()}
        out = running.run(values, what=f" with NaN in {', '.join(others)}")
        _hold_nan(running, values, out, f"numbers where {', '.join(others)} has NaN")
    first = next((n for n in running.by_row if not draws.is_whole(running.given[n])), None)
    if first is None or not np.isinf(np.asarray(-np.inf).astype(running.given[first].dtype).astype(np.float64)):
        return
    values = {**running.given, first: _with_one(running.given[first], -np.inf, -1)}
    if (numbers := running.numbers(values)).finite:
        out = running.run(values, what=f" with -Inf in {first}")
        running.inside("kit-rows", out, numbers, f"where an element of {first} is -Inf, as of a mask")


def _with_one(values: Array, number: float, place: int) -> Array:
    """Return a copy with a number in one element."""
    values = values.copy()
    if values.size:
        values.reshape(-1)[place % values.size] = number
    return values


def _hold_row(running: Running, name: str, out: Array, keep: int, word: str) -> None:
    """Hold the result of the row that was kept to what it was."""
    one, was = out[keep], running.out[name][keep]
    if same_bytes(one, was):
        return
    if running.op.same_bits or not np.allclose(one.astype(np.float64), was.astype(np.float64), rtol=1e-2):
        raise WrongResultError("kit-rows", f"{name}: the result of a row depends on its neighbours ({word} in them)")


def magnitudes(running: Running) -> None:
    """Make one row zero, one small, one far below zero and the last large, or as many of these as plain code takes."""
    for change, what in draws.STANDING_OUT.items():
        values = draws.of_rows(running.given, running.by_row, change)
        values = draws.saved_anew(running.op, values, running.sizes)
        numbers = running.numbers(values)
        if numbers.finite:
            out = running.run(values, what=f" with {what}")
            running.inside("kit-magnitudes", out, numbers, what, small_rows=True)
            return
    running.not_asked["magnitudes"] = "plain code is not finite there"


def layouts(running: Running) -> None:
    """Hand out arrays that are not packed. A kernel may refuse them with an error, which is said."""
    refused = []
    for layout in running.frame.layouts:
        values = _of_layout(running, layout)
        if values is None:
            continue
        numbers = running.compared if values is running.given else running.numbers(values)
        try:
            out = running.run(values, layout=layout, what=f" ({layout} arrays)")
        except KernelProcessError as error:
            if error.stage == "crash":
                raise
            refused.append(f"{layout} ({error.text.splitlines()[-1][:80]})")
            continue
        running.inside("kit-layout", out, numbers, f"the kernel does not look at strides: {layout} arrays")
    if refused:
        out = running.attempt("kit-after-error", running.given, "after an error of its own the kernel fails")
        running.same("kit-after-error", out, "after an error of its own the kernel gives other results")
        running.not_asked["layouts"] = f"the kernel refuses {', '.join(refused)}"


def _of_layout(running: Running, layout: str) -> draws.Arrays | None:
    """Return the values for a layout; None where no array can have it."""
    if layout != "expanded":
        return running.given
    names = [name for name in running.by_row if name not in running.op.in_place]
    if not names or not running.sizes[running.op.rows or ""]:
        return None
    return draws.of_rows(running.given, names, lambda one: np.ascontiguousarray(np.broadcast_to(one[:1], one.shape)))


def sizes(running: Running) -> None:
    """Run other numbers of rows: few, none, and more than 16 bits count; and other sizes of the axes that are free."""
    for axis in running.op.free:
        for size in OTHER:
            _with_size(running, axis, size, f"{axis} of {size}")
    if running.op.rows is None:
        return
    own = int(running.sizes[running.op.rows or ""])
    widths = {one.shape[-1] for name in running.by_row if (one := running.given[name]).ndim > 1}
    counts = {*FEW, *sorted(width for width in widths if width <= _SQUARE)[-1:]} - {own}
    for count in sorted(count for count in counts if count >= running.op.fewest):
        _with_size(running, running.op.rows, count, f"{count} rows")
    _many(running, own)


def _with_size(running: Running, axis: str, size: int, words: str) -> None:
    """Run with another size of an axis."""
    at = {**running.sizes, axis: size}
    values = draws.drawn(running.case, running.op, at, f"/{words}")
    out = running.attempt("kit-sizes", values, f"the kernel fails for {words}", at, what=f" ({words})")
    if size:
        running.inside("kit-sizes", out, running.numbers(values, at), words)


def _many(running: Running, own: int) -> None:
    """Repeat the rows until there are many: each gives what it gave among few, and sums over rows follow plain code."""
    times = _MANY // max(own, 1) + 1
    names = [name for name in running.by_row if name in running.given]
    size = times * sum(running.given[name].nbytes for name in names)
    if not own or size > _MANY_BYTES or not names:
        return
    at = {**running.sizes, running.op.rows or "": times * own}
    out = running.run(running.given, at, what=f" of {times * own} rows", fresh=True, rows=times)
    for name in running.results_by_row:
        _hold_many(running, name, out, times)
    sums = [name for name in out if name not in running.results_by_row] if size <= _SUM_BYTES else []
    if sums:
        values = repeated(draws.wide(running.given), names, times)
        expected = plain.exact(running.op, values, at, running.asked)
        for name in sums:
            _hold_sum(name, out[name], expected[name], times * own)


def _hold_many(running: Running, name: str, out: Mapping[str, Any], times: int) -> None:
    was = running.out[name]
    several, wide = out[name].reshape(times, *was.shape), was.astype(np.float64)
    # The least and the largest of each element: the distances of all, in float64, would take a gigabyte.
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        ends = (end.astype(np.float64) for end in (several.min(axis=0), several.max(axis=0)))
        off = max(float(np.abs(end - wide).max(initial=0.0)) for end in ends)
    step = 0.0 if draws.is_whole(was) else float(ml_dtypes.finfo(was.dtype).eps)  # type: ignore[no-untyped-call]
    limit = (_ULPS if was.dtype.itemsize >= 4 else _ULPS_NARROW) * step * float(np.abs(wide).max(initial=0.0))
    if not off <= limit:
        raise WrongResultError("kit-sizes", f"{name} of {times * len(was)} rows: off by {off:.2g}, over {limit:.2g}")


def _hold_sum(name: str, out: Array, expected: plain.Golden, count: int) -> None:
    """Hold a result that is made of all rows, where its dtype can hold it."""
    largest = float(np.abs(expected).max(initial=0.0))
    if draws.is_whole(out) or not np.isfinite(np.asarray(largest).astype(out.dtype)):
        return
    off = float(np.abs(out.astype(np.float64) - expected).max(initial=0.0))
    if not off <= _SUM * largest:
        raise WrongResultError("kit-sizes", f"{name} of {count} rows: off by {off:.2g}, over {_SUM * largest:.2g}")
