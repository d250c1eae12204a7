"""The places of the elements of an array in guarded memory. Both processes of a job use it, and no framework."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.inputs import Array

Bytes = npt.NDArray[np.uint8]
PACKED = "packed"
# Packed but not where a wide load may begin; with gaps; the last axis outermost; backwards; all rows in one place.
OTHER = ("offset", "strided", "transposed", "reversed", "expanded")
_LEAST = 4096  # bytes of a guard; a multiple keeps the alignment of the allocation
_ALIGNED = 64  # where the allocations of frameworks begin
UNWRITTEN = 0xFF  # NaN in every floating-point dtype


class Place(NamedTuple):
    """The place of an array: its strides in bytes, its first element, and the bytes of all, between two guards."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    strides: tuple[int, ...]
    first: int
    room: int
    guard: int

    @property
    def is_full(self) -> bool:
        """True if every byte between the guards is of an element, and of one alone."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize == self.room and 0 not in self.strides


@lru_cache(maxsize=256)  # both processes of a job ask for the same places in each run
def place_of(shape: tuple[int, ...], dtype: np.dtype[np.generic], layout: str = PACKED) -> Place:
    """Return where the elements of an array lie; each guard is as long as a row at least."""
    count, size = int(np.prod(shape, dtype=np.int64)), dtype.itemsize
    gap = 2 if layout in ("strided", "reversed") else 1
    strides, step = [0] * len(shape), size * gap
    for axis in range(len(shape)) if layout == "transposed" else reversed(range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    room, first = max(count * size * gap, size), 0
    if layout in ("offset", "strided"):
        room, first = room + size, size
    if count and shape and layout == "reversed":
        first, strides[0] = (shape[0] - 1) * strides[0], -strides[0]
    if count and shape and layout == "expanded":
        strides[0] = 0
    row = room // max(shape[0], 1) if shape else room
    return Place(shape, dtype, tuple(strides), first, room, -(-max(row, 1) // _LEAST) * _LEAST)


def laid(place: Place, values: Array | None, secret: int, fill: int = UNWRITTEN) -> Bytes:
    """Return guarded memory with the values in it; without values it holds ``fill``."""
    size = place.room + 2 * place.guard
    raw = np.empty(size + _ALIGNED, np.uint8)
    first = -raw.ctypes.data % _ALIGNED
    whole = raw[first : first + size]
    edge = pattern(place.guard, secret)
    whole[: place.guard], whole[place.guard + place.room :] = edge, edge
    if values is None or not place.is_full:
        whole[place.guard : place.guard + place.room] = fill if values is None else UNWRITTEN
    if values is not None:
        there = array_in(whole, place)
        (there if there.shape == values.shape else there.reshape(-1, *values.shape))[...] = values  # the rows again
    return whole


def array_in(whole: Bytes, place: Place) -> Array:
    """Return the array that lies in guarded memory."""
    inside = whole[place.guard : place.guard + place.room]
    return np.ndarray(place.shape, place.dtype, inside.data, place.first, place.strides)


class Opened(NamedTuple):
    """An array that came back in guarded memory: its values, and whether the guards and the gaps are whole."""

    values: Array
    guards: bool
    gaps: bool


def opened(whole: Array, place: Place, secret: int, gap: int = UNWRITTEN) -> Opened:
    """Look at guarded memory that came back; ``gap`` is what stood between the elements.

    Raises:
        ValueError: there are more or fewer bytes than were handed out.
    """
    size = place.room + 2 * place.guard
    if whole.shape != (size,) or whole.dtype != np.uint8:
        raise ValueError(f"{whole.nbytes} bytes came back, where {size} were handed out")
    edge = pattern(place.guard, secret)
    guards = bool((whole[: place.guard] == edge).all() and (whole[place.guard + place.room :] == edge).all())
    values = array_in(np.ascontiguousarray(whole).view(np.uint8), place)
    if place.is_full:  # there are none
        return Opened(values, guards, True)
    between = np.ones(place.room, np.bool_)
    if values.size:
        spots = np.ndarray(place.shape, np.dtype(f"V{place.dtype.itemsize}"), between.data, place.first, place.strides)
        spots[...] = np.zeros((), spots.dtype)
    rest = whole[place.guard : place.guard + place.room][between]
    return Opened(np.array(values), guards, bool((rest == gap).all()))


@lru_cache(maxsize=16)  # the arrays of a run have guards of few sizes
def pattern(size: int, secret: int) -> Bytes:
    """Return the bytes of a guard; ``secret`` determines them. Nobody may write into the array: it is kept."""
    words = np.random.Philox(key=secret).random_raw(size // 8)
    made = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    made.flags.writeable = False
    return made


def of_rows(shape: tuple[int, ...], times: int) -> tuple[int, ...]:
    """Return the shape of an array whose rows come so often."""
    return shape if times == 1 else (times * shape[0], *shape[1:])


def repeated(values: Mapping[str, Array], names: Collection[str], times: int) -> dict[str, Array]:
    """Return arrays, where the rows of these come so often."""
    return {n: np.tile(one, (times, *[1] * (one.ndim - 1))) if n in names else one for n, one in values.items()}


def same_bytes(one: Array, other: Array) -> bool:
    """Return whether two arrays hold the same bytes."""
    first, second = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (one, other))
    if first.size != second.size:
        return False
    words = first.size // 8 * 8  # eight bytes at once: a comparison makes as many truth values as it has elements
    same = bool((first[:words].view(np.uint64) == second[:words].view(np.uint64)).all())
    return same and bool((first[words:] == second[words:]).all())


def same_rows(several: Array, one: Array) -> bool:
    """Return whether an array holds the bytes of another one, as often as its rows come."""
    if several.shape == one.shape or not one.nbytes or several.nbytes % one.nbytes:
        return same_bytes(several, one)
    first, second = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (several, one))
    return bool((first.reshape(-1, second.size) == second).all())
