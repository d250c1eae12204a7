"""The faults that are put into a copy of a result, and the noise below which no comparison need see one."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

Wide = npt.NDArray[np.float64]

FACTOR = 4.0  # times the noise, as the budget of a test that compares with a golden
_SURELY = 1.5  # times the budget: a smaller change need not be seen
_TF32, _BF16 = 10, 7  # bits behind the leading one
_BITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
_BITS |= {"float8_e4m3fn": 3, "float8_e4m3fnuz": 3, "float8_e5m2": 2, "float8_e5m2fnuz": 2}
_LARGEST = {
    "bool": 1.0,
    "float64": sys.float_info.max,
    "float32": float(np.finfo(np.float32).max),
    "float16": 65504.0,
    "bfloat16": 255 * 2.0**120,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
_LEAST = {"float64": math.ulp(0.0), "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
_LEAST |= {"float8_e4m3fn": 2.0**-9, "float8_e4m3fnuz": 2.0**-10, "float8_e5m2": 2.0**-16, "float8_e5m2fnuz": 2.0**-17}
_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_FEW, _LAST = 16, 0.25  # of the numbers that use the last bit: at least so many, and such a share of all


def part_of(dtype: str) -> str:
    """Return the dtype of a part of a complex number; of others their own."""
    return _PARTS.get(dtype, dtype)


def bits_of(dtype: str, actual: Wide) -> int | None:
    """Return how many bits behind the leading one the numbers have; None for integers.

    Numbers that were rounded to a narrow dtype and stand in a wide one have the bits of the narrow one: a suite whose
    kernel computes in bf16 compares in fp32, as NumPy has no bf16. Numbers that only fit the narrow one do not.

    Raises:
        TypeError: the dtype is none that is compared so.
    """
    if dtype.startswith(("int", "uint", "bool")):
        return None
    if dtype not in _BITS:
        raise TypeError(f"{dtype} is no dtype of numbers")
    narrow = (bits for bits in (_BF16, _TF32, 23) if was_rounded(actual, bits))
    return min(_BITS[dtype], next(narrow, 52))


def was_rounded(values: Wide, bits: int) -> bool:
    """Return whether finite values can only come from a rounding to so many bits behind the leading one.

    Whole numbers, powers of two and multiples of one step fit too, and use the last bit in one binade at most. What was
    rounded uses it as often as not, in each.
    """
    if not np.array_equal(rounded(values, bits), values):
        return False
    parts, exponents = np.frexp(np.unique(np.abs(values[values != 0])))
    last = np.ldexp(parts, bits + 1) % 2 == 1
    return np.count_nonzero(last) >= max(_FEW, _LAST * last.size) and np.unique(exponents[last]).size > 1


def largest_of(dtype: str) -> float:
    """Return the largest number of a dtype, of 64-bit integers a power of two below it; 0 where nothing can be far."""
    integer = re.fullmatch(r"(u?)int(\d+)", dtype)
    if not integer:
        return _LARGEST.get(dtype, 0.0)
    bits = int(integer[2]) - (not integer[1])
    return 2.0**bits - 1 if bits < 53 else 2.0 ** (bits - 1)


def least_of(dtype: str) -> float:
    """Return the smallest number of a dtype that is more than zero."""
    return _LEAST[dtype]


def lowest_of(dtype: str) -> float:
    """Return the lowest number of a dtype, of 64-bit integers a power of two above it."""
    return 0.0 if dtype.startswith(("uint", "bool")) else -largest_of(dtype) - dtype.startswith("int")


def rounded(values: Wide, bits: int) -> Wide:
    """Return finite values rounded to so many bits behind the leading one, to even in the middle."""
    parts, exponents = np.frexp(values)
    rounded_values: Wide = np.ldexp(np.rint(np.ldexp(parts, bits + 1)), exponents - bits - 1)
    return rounded_values


def budget_of(actual: Wide, exact: Wide, bits: int | None) -> float:
    """Return the largest error that noise explains: a factor times the error here, or half a step of the dtype.

    It is a number also where the error is none.
    """
    if bits is None:
        return 0.0
    largest = float(np.abs(exact).max(initial=0.0))
    step = 2.0 ** (math.frexp(largest)[1] - 2 - bits) if largest else 0.0
    return min(FACTOR * max(float(np.abs(actual - exact).max(initial=0.0)), step), sys.float_info.max)


def faulty_copies(rows: Wide, budget: float) -> Iterator[tuple[str, Wide]]:
    """Yield copies of a result with one fault each, with the name of the fault.

    ``rows`` has two axes, and NaN where no fault is to be.
    """
    for name, put in FAULTS.items():
        copy = put(rows, budget)
        if copy is not None:
            yield name, copy


def matters(copy: Wide, exact: Wide, budget: float) -> bool:
    """Return whether a copy is so far from what was expected that noise does not explain it."""
    return float(np.abs(copy - exact).max(initial=0.0)) > _SURELY * budget


def _element(rows: Wide, budget: float) -> Wide:
    sizes = np.abs(rows)
    at, largest, copy = int(np.nanargmax(sizes)), float(np.nanmax(sizes)), rows.copy()
    whole = 1.0 if largest <= 0.5 else -1.0  # it may be the last one of its dtype
    copy.flat[at] += math.copysign(1.0, rows.flat[at]) * (0.01 * largest if budget else whole)
    return copy


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
