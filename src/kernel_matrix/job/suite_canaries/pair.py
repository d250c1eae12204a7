"""Two arrays that a suite has found equal, as numbers of the CPU into which faults can be put."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.suite_canaries import of_numpy, of_torch
from kernel_matrix.job.suite_canaries.faults import (
    Wide,
    bits_of,
    far_from,
    largest_of,
    least_of,
    matters,
    middle_of,
    off_by,
)


@dataclass
class Pair:
    """A part of the result as rows, and the part of what was expected, as the suite's function takes it."""

    kind: ModuleType
    actual: Any
    expected: Any
    shape: tuple[int, ...]
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
        return self.kind.native(rows.reshape(self.shape), self.actual)

    @property
    def numbers(self) -> Wide:
        """The rows with NaN where the result or what was expected is no number."""
        return np.where(self.usable, self.rows, np.nan)

    @property
    def most(self) -> float:
        """The largest error that any number of the result can have, to the one side or to the other."""
        return largest_of(self.kind.dtype_of(self.actual)) / 2

    @property
    def least(self) -> float:
        """The smallest error that a number of the result can have."""
        return 1.0 if self.bits is None else least_of(self.kind.dtype_of(self.actual))

    @property
    def places(self) -> list[int]:
        """The places of which most and least is expected, and the middle: tolerances are relative, or not."""
        sizes = np.abs(np.where(self.usable, self.wanted, np.nan))
        return [*dict.fromkeys([int(np.nanargmax(sizes)), middle_of(self.numbers), int(np.nanargmin(sizes))])]

    def changed(self, rows: Wide) -> Any:
        """Return a copy that has other numbers, where these are some; Inf and NaN stay as they are."""
        return self.native(np.where(self.usable & np.isfinite(rows), rows, self.rows))

    def far_off(self, at: int) -> Any:
        """Return a copy with one element as far off as its dtype allows."""
        copy = self.numbers
        copy.flat[at] = far_from(float(copy.flat[at]), self.kind.dtype_of(self.actual))
        return self.changed(copy)

    def off(self, at: int, error: float) -> tuple[Any, float]:
        """Return a copy with one element off by an error, and by how much it is with the dtype's rounding."""
        copy = self.changed(off_by(self.numbers, at, error, self.most))
        return copy, float(np.abs(self.kind.wide(copy).reshape(self.rows.shape) - self.rows).flat[at])

    def with_fault(self, rows: Wide, budget: float) -> Any:
        """Return a copy with a fault; None if its dtype or the noise hides the fault."""
        faulty = self.changed(rows)
        numbers = self.kind.wide(faulty).reshape(self.rows.shape)[self.usable]
        changed = not np.array_equal(numbers, self.finite)
        return faulty if changed and matters(numbers, self.exact, budget) else None


def paired(actual: Any, expected: Any, whole: int, most_rows: int, columns: int) -> Pair | None:
    """Return two arrays of one shape as numbers; of large ones some rows, of which the first and the last are two.

    A comparison of elements says the same of a part: the rest has passed. None if there is nothing to put a fault into.

    Raises:
        TypeError: the dtype, or the kind of array, is none that is asked.
    """
    kind: Any = of_torch if of_torch.is_tensor(actual) else of_numpy
    shape = tuple(actual.shape) if hasattr(actual, "shape") else np.shape(actual)
    same = tuple(getattr(expected, "shape", None) or np.shape(expected)) == shape
    size = int(np.prod(shape, dtype=np.int64))
    if not size or (size > whole and not same):
        return None
    lead, rows = None, None
    if size > whole:
        lead, count = (shape[:-1], size // shape[-1]) if len(shape) > 1 else (shape, size)
        wide_rows = columns if len(shape) > 1 else 1
        take = most_rows if len(shape) > 1 else whole
        rows = np.unique(np.linspace(0, count - 1, min(take, count)).astype(np.int64))
        columns = wide_rows
    if len(shape) == 1 and lead is not None:
        actual, expected = actual.reshape(-1, 1), expected.reshape(-1, 1)
    taken = kind.part(actual, lead, rows, columns)
    other = of_torch if of_torch.is_tensor(expected) else of_numpy
    wanted_part = other.part(expected, lead, rows, columns) if hasattr(expected, "shape") else expected
    return _pair(kind, taken, wanted_part, other.wide(wanted_part))


def _pair(kind: Any, actual: Any, expected: Any, wanted: Wide) -> Pair | None:
    numbers = kind.wide(actual)
    shape = tuple(numbers.shape)
    rows = numbers.reshape(-1, shape[-1]) if len(shape) > 1 else numbers.reshape(-1, 1)
    if not np.array_equal(kind.wide(kind.native(numbers, actual)), numbers, equal_nan=True):
        return None  # integers beyond 2**53
    wanted = np.broadcast_to(wanted, shape).reshape(rows.shape)
    usable = np.isfinite(rows) & np.isfinite(wanted)
    if not usable.any():
        return None
    return Pair(kind, actual, expected, shape, rows, wanted, usable, bits_of(kind.dtype_of(actual), rows[usable]))
