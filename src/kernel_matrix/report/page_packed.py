"""Numbers of many cases -> JSON. A column of numbers is packed, because text takes ten times as long to write.

The page shows five digits. It gets all digits that the results have, and rounds them itself.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.report.page_script import encoded

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
_NEAR = 16  # numbers between the least and the largest, for each that there is
_NOTHING = b"{},"  # no object is shorter
# The kinds that numbers are packed as. The first that holds every number of a column exactly is taken.
_KINDS: dict[str, np.dtype[Any]] = {"uint8": np.dtype("u1"), "float32": np.dtype("<f4"), "float64": np.dtype("<f8")}


def kind_of(values: Floats) -> str:
    """Return the kind that some numbers can be packed as, all or a part of them."""
    has_nan = bool(np.isnan(values).any())
    with np.errstate(invalid="ignore", over="ignore"):
        for kind, dtype in _KINDS.items():
            if not (has_nan and kind == "uint8") and np.array_equal(values.astype(dtype), values, equal_nan=True):
                return kind
    return "float64"


def packed(values: Floats, kind: str, absent: Flags | None = None) -> bytes:
    """Return numbers as JSON, see ``NumberColumn`` in :mod:`kernel_matrix.report.page_data`.

    A number that is NaN is absent. If some results say NaN, ``absent`` says which numbers are absent.
    """
    if absent is not None and bool((np.isnan(values) & ~absent).any()):
        pairs = zip(values.tolist(), absent.tolist(), strict=True)
        return encoded([None if is_absent else value for value, is_absent in pairs])
    if not len(values):
        return b"null"
    first = values[0]
    if np.isnan(first):
        if np.isnan(values).all():
            return b"null"
    elif (values == first).all():
        return encoded(float(first))
    return b'{"%b":"%b"}' % (kind.encode(), b64encode(values.astype(_KINDS[kind]).tobytes()))


def places(values: npt.NDArray[Any]) -> bytes:
    """Return whole numbers as JSON; a list of one if all are equal."""
    if len(values) and (values == values[0]).all():
        return b"[%d]" % values[0]
    return encoded(values.tolist())


@dataclass(frozen=True)
class Objects:
    """Objects that are JSON already, one behind the other with a comma after each. ``first`` has where each begins."""

    text: bytes
    first: npt.NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Objects:
        """Return the objects of these texts."""
        parts = [f"{text},".encode() for text in texts]
        return cls(b"".join(parts), np.cumsum([0, *map(len, parts)], dtype=np.int64))

    def written(self, start: int, end: int) -> bytes:
        """Return those from ``start`` to ``end`` as a list; an empty one if there is nothing in any."""
        begin, stop = int(self.first[start]), int(self.first[end])
        if stop - begin == len(_NOTHING) * (end - start):
            return b"[]"
        return b"[%b]" % self.text[begin : stop - 1]


def numbered(values: npt.NDArray[Any], *, absent: int | None = None) -> tuple[list[int], npt.NDArray[Any]]:
    """Return the distinct values in ascending order without ``absent``, and the place of each value among them.

    The place of ``absent`` is -1.
    """
    distinct, inverse = _unique(values)
    if absent is not None and len(distinct) and distinct[0] == absent:
        return distinct[1:].tolist(), inverse - 1
    return distinct.tolist(), inverse


def _unique(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the distinct values in ascending order, and the place of each value among them.

    Of numbers that lie near to one another, each is marked in a list of all that lie between: nothing is sorted.
    """
    least = int(values.min()) if values.size else 0
    span = int(values.max()) - least + 1 if values.size else 0
    if span > _NEAR * values.size:
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse.reshape(values.shape)
    shifted = values - least
    marked = np.zeros(span, np.bool_)
    marked[shifted] = True
    return np.flatnonzero(marked) + least, (np.cumsum(marked) - 1)[shifted]
