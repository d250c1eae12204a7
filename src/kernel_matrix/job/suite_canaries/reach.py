"""Find how far a line lets one element be off, of those of which most and least is expected, to both sides.

The tolerance of an element follows from its own size, so no other of the same dtypes may be off by more.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernel_matrix.job.suite_canaries.faults import largest_of, least_of, lowest_of, part_of
from kernel_matrix.job.suite_canaries.pair import Pair, kind_of, shape_of

STEP = 1.025  # the factor to which the largest error is told that passes
_MOST = 1 << 24  # elements of an array that is looked at whole
_CHUNK = 1 << 16  # of these at a time
_GALLOP = 16.0

Passes = Callable[[Any, Any], bool]  # whether the suite's function takes two arrays for equal


@dataclass(frozen=True)
class Ends:
    """Hold where in a result most and least is expected, and how much."""

    at: tuple[int, int]
    most: float
    least: float


@dataclass
class Known:
    """Hold how far a line let an element be off, and the sizes of those that were asked."""

    allows: float = 0.0  # Inf where any number passes
    second: float = 0.0  # the same of the second argument, which a share of itself may let be off by more
    most: float = -1.0
    least: float = math.inf
    more: bool = False  # whether there were elements that were not looked at

    def beyond(self, ends: Ends) -> list[int]:
        """Return the places of which more, or less, is expected than of all before; none where any number passes."""
        larger, smaller = ends.most > self.most, ends.least < self.least
        places = [at for at, new in zip(ends.at, (larger, smaller), strict=True) if new]
        return [*dict.fromkeys(places)] if math.isfinite(self.allows) else []

    def ask(self, passes: Passes, both: tuple[Any, Any], ends: Ends | None, pair: Pair, budget: float) -> None:
        """Ask how far an element of two arrays may be off, where more or less is expected than of all before.

        Without ``ends`` of all, and where a few elements do not pass by themselves, the ``pair`` stands for the arrays:
        there may be elements that may be off by more.
        """
        reach, places = None, self.beyond(ends) if ends else []
        with contextlib.suppress(Exception):
            reach = Reach.of(passes, *both, places, self.allows) if places else None
        if reach is None and (places or not ends):
            of_pair = ends_of(pair.actual, pair.expected)
            self.more = True
            ends, places = of_pair, self.beyond(of_pair) if of_pair else []
            reach = Reach(passes, pair.actual, pair.expected, places, self.allows)
        if ends and reach and largest_of(reach.dtype):
            start = max(budget, 1.0 if pair.bits is None else least_of(reach.dtype))
            self.allows = reach.found(start)
            if math.isfinite(least := max(self.allows, self.second)) and reach.is_of_two():
                self.second = reach.found_of_second(start, least)
            self.most, self.least = max(self.most, ends.most), min(self.least, ends.least)


def ends_of(actual: Any, expected: Any) -> Ends | None:
    """Return where most and least is expected of all elements; None where they are too many, or none is finite."""
    shape = shape_of(actual)
    size = math.prod(shape)
    if size > _MOST:
        return None
    kind, row, start = kind_of(expected), kind_of(expected).flat(expected, shape if shape_of(expected) else ()), 0
    high, low = (-1.0, 0), (math.inf, 0)
    for start in range(0, len(row), _CHUNK):
        sizes = kind.sizes(row[start : start + _CHUNK])
        above, below = int(sizes.argmax()), int(sizes.argmin())
        most, least = float(sizes[above]), float(sizes[below])
        if not (math.isfinite(most) and math.isfinite(least)):
            wide = np.abs(kind.wide(sizes))
            finite = np.isfinite(wide)
            if not finite.any():
                continue
            above, below = int(np.where(finite, wide, -1).argmax()), int(np.where(finite, wide, np.inf).argmin())
            most, least = float(wide[above]), float(wide[below])
        high, low = max(high, (most, start + above)), min(low, (least, start + below))
    return Ends((high[1], low[1]), high[0], low[0]) if high[0] >= 0 else None


@dataclass
class Reach:
    """Some elements of a result, as the suite's function takes them, of which one is off at a time."""

    passes: Passes
    actual: Any
    expected: Any
    places: Sequence[int]
    allows: float  # the largest error that has passed
    _answers: dict[tuple[int, complex], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the numbers."""
        self.kind = kind_of(self.actual)
        self.numbers = self.kind.wide(self.actual)
        self.wanted = np.broadcast_to(kind_of(self.expected).wide(self.expected), self.numbers.shape).reshape(-1)
        self.dtype = part_of(self.kind.dtype_of(self.actual))

    @classmethod
    def of(cls, passes: Passes, actual: Any, expected: Any, places: Sequence[int], allows: float) -> Reach | None:
        """Return the elements at these places alone; None where these do not pass by themselves."""
        if shape := shape_of(actual):
            kind, other = kind_of(actual), kind_of(expected)
            expected = other.taken(other.flat(expected, shape), places) if shape_of(expected) else expected
            actual = kind.taken(kind.flat(actual, shape), places)
        alone = cls(passes, actual, expected, range(len(places)), allows)
        return alone if passes(alone.kind.native(alone.numbers, actual), expected) else None

    def is_of_two(self) -> bool:
        """Return whether each of the two can be the result: arrays of the same kind, shape and dtype."""
        both = [(kind_of(one), shape_of(one), kind_of(one).dtype_of(one)) for one in (self.actual, self.expected)]
        return hasattr(self.actual, "dtype") and both[0] == both[1]

    def found_of_second(self, start: float, allows: float) -> float:
        """Return the largest error that passes if the second argument is the result, away from zero, or ``allows``."""
        turned = Reach(lambda one, two: self.passes(two, one), self.expected, self.actual, self.places, allows)
        wanted = complex(turned.wanted[at := self.places[0]])
        if (room := largest_of(self.dtype) - abs(wanted)) > 0:
            way = wanted / abs(wanted) if wanted else 1.0
            turned._search(at, way, start, room, longest=room > abs(wanted))
        return turned.allows

    def found(self, start: float) -> float:
        """Return the largest error of one element that passes, if it is more than ``start``; Inf where any passes."""
        for at in self.places:
            for n, (direction, room) in enumerate(self._directions(at)):
                self._search(at, direction, start, room, longest=not n)
                if math.isinf(self.allows):
                    return self.allows
        return self.allows

    def _directions(self, at: int) -> list[tuple[complex, float]]:
        """Return the ways that an element can be off, and how far each goes; the longest is first."""
        wanted = complex(self.wanted[at])
        largest, lowest = largest_of(self.dtype), lowest_of(self.dtype)
        if np.iscomplexobj(self.numbers):
            unit = wanted / abs(wanted) if wanted else 1 + 0j
            turned = complex(math.copysign(0.5**0.5, unit.real), math.copysign(0.5**0.5, unit.imag))
            return [(way, largest) for way in (-unit, unit, turned)]
        ways = [(1.0, largest - wanted.real), (-1.0, wanted.real - lowest)]
        ways = [(way, min(room, largest_of("float64"))) for way, room in ways if room > 0]
        return sorted(ways, key=lambda way: -way[1])

    def _search(self, at: int, direction: complex, start: float, room: float, *, longest: bool) -> None:
        low = min(max(start, STEP * self.allows), room)
        if not self._lets(at, direction, low):
            return
        while (high := min(low * _GALLOP, room)) > low and self._lets(at, direction, high):
            low = high
        if low == room and longest:
            self.allows = math.inf
        while high > STEP * low and low < (middle := math.sqrt(low) * math.sqrt(high)) < high:
            low, high = (middle, high) if self._lets(at, direction, middle) else (low, middle)
        short = (float(f"{math.sqrt(low) * math.sqrt(high):.{digits}g}") for digits in (1, 2))
        if (between := next((error for error in short if low < error < high), None)) is not None:
            self._lets(at, direction, between)  # as a person has written it

    def _lets(self, at: int, direction: complex, error: float) -> bool:
        """Return whether an element may be off by an error, with the dtype's rounding; what may be is kept."""
        copy = self.numbers.copy()
        value = self.wanted[at] + (direction * error)
        copy.flat[at] = value if np.iscomplexobj(copy) else value.real
        faulty = self.kind.native(copy, self.actual)
        put = complex(self.kind.wide(faulty).flat[at])
        if (off := abs(put - complex(self.wanted[at]))) <= self.allows:
            return True
        if (at, put) not in self._answers:
            self._answers[at, put] = math.isfinite(off) and self.passes(faulty, self.expected)
        if self._answers[at, put]:
            self.allows = off
        return self._answers[at, put]
