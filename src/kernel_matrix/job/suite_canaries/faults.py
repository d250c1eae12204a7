"""The faults that are put into a copy of a result, and the noise below which no comparison need see one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

Wide = npt.NDArray[np.float64]

FACTOR = 4.0  # times the noise, as the budget of a test that compares with a golden
_SURELY = 1.5  # times the budget: a smaller change need not be seen
_TF32, _BF16 = 10, 7  # bits behind the leading one
_BITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7, "float8_e4m3fn": 3, "float8_e5m2": 2}


def bits_of(dtype: str, actual: Wide) -> int | None:
    """Return how many bits behind the leading one the numbers have; None for integers.

    Numbers of a narrow dtype that stand in a wide one have the bits of the narrow one.

    Raises:
        TypeError: the dtype is none that is compared so.
    """
    if dtype.startswith(("int", "uint", "bool")):
        return None
    if dtype not in _BITS:
        raise TypeError(f"{dtype} is no dtype of real numbers")
    narrow = (bits for bits in (_BF16, _TF32, 23) if np.array_equal(rounded(actual, bits), actual))
    return min(_BITS[dtype], next(narrow, 52))


def rounded(values: Wide, bits: int) -> Wide:
    """Return finite values rounded to so many bits behind the leading one, to even in the middle."""
    parts, exponents = np.frexp(values)
    rounded_values: Wide = np.ldexp(np.rint(np.ldexp(parts, bits + 1)), exponents - bits - 1)
    return rounded_values


def budget_of(actual: Wide, exact: Wide, bits: int | None) -> float:
    """Return the largest error that noise explains: a factor times the error here, or half a step of the dtype."""
    if bits is None:
        return 0.0
    largest = float(np.abs(exact).max(initial=0.0))
    step = 2.0 ** (math.frexp(largest)[1] - 2 - bits) if largest else 0.0
    return FACTOR * max(float(np.abs(actual - exact).max(initial=0.0)), step)


def faulty_copies(rows: Wide, budget: float) -> Iterator[tuple[str, Wide]]:
    """Yield copies of a result with one fault each, with the name of the fault. ``rows`` has two axes."""
    for name, put in FAULTS.items():
        copy = put(rows, budget)
        if copy is not None:
            yield name, copy


def matters(copy: Wide, exact: Wide, budget: float) -> bool:
    """Return whether a copy is so far from what was expected that noise does not explain it."""
    return float(np.abs(copy - exact).max(initial=0.0)) > _SURELY * budget


def off_by(rows: Wide, error: float) -> Wide:
    """Return a copy whose middle element is off by an error."""
    copy = rows.copy()
    copy.flat[copy.size // 2] += math.copysign(error, copy.flat[copy.size // 2])
    return copy


def _element(rows: Wide, budget: float) -> Wide:
    return off_by(rows, 0.01 * float(np.abs(rows).max(initial=0.0)) if budget else 1.0)


def _zeros(rows: Wide, _: float) -> Wide | None:
    if rows.size < 2:
        return None
    copy = rows.copy()
    copy[len(copy) // 2] = 0.0
    return copy


def _last(rows: Wide, _: float) -> Wide | None:
    if len(rows) < 2:
        return None
    copy = rows.copy()
    copy[-1] = copy[-2]
    return copy


def _exchanged(rows: Wide, _: float) -> Wide | None:
    if len(rows) < 2:
        return None
    copy = rows.copy()
    copy[[0, -1]] = copy[[-1, 0]]
    return copy


def _everywhere(rows: Wide, budget: float) -> Wide | None:
    if not budget:
        return None
    signs = 1.0 - 2.0 * (np.arange(rows.size).reshape(rows.shape) % 2)
    return rows + 2.0 * budget * signs


def _to(bits: int) -> Callable[[Wide, float], Wide | None]:
    return lambda rows, budget: rounded(rows, bits) if budget else None


FAULTS: dict[str, Callable[[Wide, float], Wide | None]] = {
    "one element off by 1 % of the largest": _element,
    "a row of zeros": _zeros,
    "the last row a copy of the row before": _last,
    "two rows exchanged": _exchanged,
    "one more rounding, to bf16": _to(_BF16),
    "one more rounding, to TF32": _to(_TF32),
    "every element off by twice its budget": _everywhere,
}
