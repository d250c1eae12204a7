"""Two arrays that a suite has found equal, as numbers of the CPU into which faults can be put."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.suite_canaries import of_numpy, of_python, of_torch
from kernel_matrix.job.suite_canaries.faults import Wide, bits_of, matters, part_of

WHOLE = 1 << 14  # elements of an array that is taken whole
_ROWS, _COLUMNS = 32, 512  # of a larger one


def kind_of(value: Any) -> Any:
    """Return the module that knows an array, or Python's numbers."""
    if not hasattr(value, "dtype"):
        return of_python
    return of_torch if of_torch.is_tensor(value) else of_numpy


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of an array or of numbers."""
    shape: tuple[int, ...] = tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
    return shape


def leaves(actual: Any, expected: Any, *, whole: bool = False) -> Iterator[tuple[Any, Any, bool]]:
    """Yield the arrays and numbers of sequences or mappings, with what is expected of each, and which comes first.

    Where the first are numbers of Python and the second is an array, this is the result. Whole numbers of Python alone
    are counts and shapes, unless ``whole`` ones are asked, too. Of two in the same memory there is none: a fault
    is then on both sides.
    """
    if _is_same(actual, expected):
        return
    if of_numpy.is_array(actual):
        expected = _short(expected)
        yield _spread(actual, expected), expected, False
    elif isinstance(actual, Mapping):
        for name in actual:
            yield from leaves(actual[name], expected[name], whole=whole)
    elif of_python.is_number(actual) and of_numpy.is_array(expected):
        yield expected, _short(actual), True
    elif of_python.is_number(actual) and of_python.is_number(expected):
        kinds = {np.asarray(value).dtype.kind for value in (actual, expected)}
        if kinds <= {*"ifc"} and (whole or kinds != {"i"}):
            yield _short(actual), _short(expected), False
    elif isinstance(actual, (list, tuple)):
        for one, other in zip(actual, expected, strict=True):
            yield from leaves(one, other, whole=whole)


def _is_same(actual: Any, expected: Any) -> bool:
    """Return whether two arrays have the same elements of the same memory in the same order, or are one list."""
    if not (of_numpy.is_array(actual) and of_numpy.is_array(expected)):
        return actual is expected and isinstance(actual, (list, Mapping))
    with contextlib.suppress(Exception):
        place = kind_of(actual).place(actual)
        return bool(place) and place == kind_of(expected).place(expected)
    return False


def _spread(actual: Any, expected: Any) -> Any:
    """Return a result that is compared with a larger array as one of that shape."""
    shape, other = shape_of(actual), shape_of(expected)
    with contextlib.suppress(ValueError):
        whole = np.broadcast_shapes(shape, other)
        return actual if whole == shape else kind_of(actual).spread(actual, whole)
    return actual


def _short(value: Any) -> Any:
    """Return a long list as an array."""
    long = isinstance(value, (list, tuple)) and np.size(value) > WHOLE
    return np.asarray(value) if long else value


@dataclass
class Pair:
    """A part of the result as rows, and the part of what was expected, as the suite's function takes it.

    A complex number is two columns.
    """

    kind: ModuleType
    actual: Any
    expected: Any
    rows: Wide
    wanted: Wide
    usable: npt.NDArray[np.bool_]  # where both are finite
    bits: int | None

    @property
    def finite(self) -> Wide:
        """The finite numbers of the result."""
        return self.rows[self.usable]

    @property
    def exact(self) -> Wide:
        """The numbers that were expected in their place."""
        return self.wanted[self.usable]

    def native(self, rows: Wide) -> Any:
        """Return rows as an array of the result's own kind, shape and dtype."""
        return self.kind.native(_joined(rows, self.dtype), self.actual)

    @property
    def dtype(self) -> str:
        """The name of the result's dtype."""
        return str(self.kind.dtype_of(self.actual))

    def by_one(self) -> Any:
        """Return a copy with its largest integer off by one, where float64 does not have each; None for others."""
        sizes = np.abs(self.rows)
        if self.bits is not None or sizes.max() < 2.0**53:
            return None
        copy, at = self.kind.part(self.actual), np.unravel_index(int(sizes.argmax()), shape_of(self.actual))
        copy[at] -= int(math.copysign(1, self.rows.flat[sizes.argmax()]))
        return copy

    @property
    def numbers(self) -> Wide:
        """The rows with NaN where the result or what was expected is no number."""
        return np.where(self.usable, self.rows, np.nan)

    def with_fault(self, rows: Wide, budget: float) -> Any:
        """Return a copy with a fault; None if its dtype or the noise hides the fault. Inf and NaN stay as they are."""
        faulty = self.native(np.where(self.usable & np.isfinite(rows), rows, self.rows))
        numbers = _parted(self.kind.wide(faulty), self.dtype)[self.usable]
        changed = not np.array_equal(numbers, self.finite)
        return faulty if changed and matters(numbers, self.exact, budget) else None


def _parted(values: Any, dtype: str) -> Wide:
    """Return numbers as rows, of which the parts of complex ones are two columns."""
    values = np.ascontiguousarray(values, np.complex128 if part_of(dtype) != dtype else np.float64)
    rows = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
    parts: Wide = rows.view(np.float64)
    return parts


def _joined(rows: Wide, dtype: str) -> Any:
    return np.ascontiguousarray(rows).view(np.complex128) if part_of(dtype) != dtype else rows


def paired(actual: Any, expected: Any, places: Sequence[int] = ()) -> Pair | None:
    """Return two arrays as numbers; of large ones some rows and columns, with the first, the last and those of places.

    A comparison of elements says the same of a part: the rest has passed. None if there is nothing to put a fault into.

    Raises:
        TypeError: the dtype, or the kind of array, is none that is asked.
    """
    shape, of_other = shape_of(actual), shape_of(expected)
    if 0 in shape:
        return None
    if math.prod(shape) <= WHOLE:
        return _pair(kind_of(actual).part(actual), kind_of(expected).part(expected))
    if of_other and of_other != shape:
        expected = kind_of(expected).spread(expected, shape)
    if len(shape) == 1:
        shape = *shape, 1
        actual, expected = actual.reshape(shape), expected.reshape(shape) if of_other else expected
    most = (_ROWS, _COLUMNS) if shape[-1] > 1 else (WHOLE, 1)
    rows, columns = (
        np.unique([*np.linspace(0, count - 1, min(few, count)).astype(np.int64), *own])
        for count, few, own in zip(
            (math.prod(shape[:-1]), shape[-1]), most, np.divmod(np.array(places, int), shape[-1]), strict=True
        )
    )
    index = *(lead[:, None] for lead in np.unravel_index(rows, shape[:-1])), columns
    taken = kind_of(expected).part(expected, index) if of_other else expected
    return _pair(kind_of(actual).part(actual, index), taken)


def _pair(actual: Any, expected: Any) -> Pair | None:
    kind: Any = kind_of(actual)
    numbers, dtype = kind.wide(actual), kind.dtype_of(actual)
    if not np.array_equal(kind.wide(kind.native(numbers, actual)), numbers, equal_nan=True):
        return None  # float64 has none of its dtype there
    rows = _parted(numbers, dtype)
    wanted = _parted(np.broadcast_to(kind_of(expected).wide(expected), numbers.shape), dtype)
    usable = np.isfinite(rows) & np.isfinite(wanted)
    if not usable.any():
        return None
    return Pair(kind, actual, expected, rows, wanted, usable, bits_of(part_of(dtype), rows[usable]))
