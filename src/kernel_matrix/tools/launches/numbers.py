"""The numbers of launches: what each has changed in memory, and those of an emulator beside those of a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FLOATS: Mapping[str, Any] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@dataclass(frozen=True)
class Beside:
    """The numbers of one launch on both: elements, how many differ, and the largest difference.

    ``share`` is the largest difference over the largest number of its tensor, in units of the dtype's precision.
    ``instructions`` are those of the launch whose results a GPU may round in its own way. ``reason`` says why nothing
    is compared.
    """

    elements: int = 0
    different: int = 0
    ulps: float = 0
    share: float = 0
    instructions: tuple[str, ...] = ()
    reason: str = ""

    @property
    def text(self) -> str:
        """Its text."""
        if self.reason:
            return self.reason
        most = f"{self.ulps:g} ulp at most, and {self.share:.2g} of the largest number"
        return f"{self.different} of {self.elements} elements differ, by {most}"


def ulps(dtype: str, one: Any, other: Any) -> Any:
    """Return the distance of bits of a dtype in units in the last place; of NaN on one side only it is infinite."""
    left, right = (_ordered(dtype, bits) for bits in (one, other))
    distance = np.abs(left - right).astype(np.float64)
    if dtype in FLOATS:
        nan, also = (np.isnan(bits.view(FLOATS[dtype]).astype(np.float64)) for bits in (one, other))
        distance[nan & also] = 0
        distance[nan != also] = np.inf
    return distance


def share(dtype: str, one: Any, other: Any) -> float:
    """Return the largest difference over the largest number, in units of the dtype's precision."""
    if dtype not in FLOATS:
        return 0.0
    left, right = (bits.view(FLOATS[dtype]).astype(np.float64) for bits in (one, other))
    finite = np.isfinite(left) & np.isfinite(right)
    most = np.abs(left[finite]).max(initial=0.0)
    apart = np.abs(left - right)[finite].max(initial=0.0)
    return float(apart / most / _EPS[dtype]) if most else 0.0


def _ordered(dtype: str, bits: Any) -> Any:
    """Return integers that are in the order of the numbers, one apart where these are neighbours."""
    width = bits.dtype.itemsize
    signed = bits.view(f"i{width}").astype(np.int64)
    if dtype not in FLOATS:
        return signed
    least = np.int64(-(2 ** (8 * width - 1)))
    return np.where(signed < 0, least - signed, signed)


@dataclass(frozen=True)
class Change:
    """The elements of a tensor that were changed: their places, what was there, and what is there now."""

    where: Any
    before: Any
    after: Any


Changes = Mapping[str, Change]


def changes_in(path: Path) -> Changes:
    """Return what a launch has changed, by the name and the dtype of the tensor."""
    with np.load(path) as arrays:
        names = dict.fromkeys(key.rpartition(" ")[0] for key in arrays)
        return {name: Change(*(arrays[f"{name} {part}"] for part in ("where", "before", "after"))) for name in names}


def at(where: Any, change: Change, others: Iterable[Change], *, before: bool = False) -> Any:
    """Return the elements at these places: after a change, or as they were where it did not change them."""
    found = np.zeros(where.size, change.after.dtype)
    for one in (*others, change):
        places = np.searchsorted(where, one.where)
        inside = (places < where.size) & (where[np.minimum(places, where.size - 1)] == one.where)
        found[places[inside]] = one.before[inside]
    if not before:
        places = np.searchsorted(where, change.where)
        inside = (places < where.size) & (where[np.minimum(places, where.size - 1)] == change.where)
        found[places[inside]] = change.after[inside]
    return found
