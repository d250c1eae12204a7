"""Choose so many cases of a cell that every value is run with every other value with which some case has it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import prod

import pytest

from kernel_matrix.config.plan import Case


def combined(case: Case, together: int) -> set[tuple]:
    """Return the values of each ``together`` axes of a case: each value for 1, each pair of values for 2."""
    return set(combinations(sorted((axis, str(value)) for axis, value in case.axes.items()), together))


def covering(cases: Iterable[Case], together: int = 2) -> list[Case]:
    """Return some of the cases: what is combined in any of the cases is combined in one of these.

    Of two cases that add equally much, the one with the smaller tensors is chosen.
    """
    rest, chosen = sorted(cases, key=_size), []
    values = {case.id: combined(case, together) for case in rest}
    missing = set().union(*values.values())
    while missing:
        chosen.append(max(rest, key=lambda case: len(values[case.id] & missing)))
        rest.remove(chosen[-1])
        missing -= values[chosen[-1].id]
    return chosen


def _size(case: Case) -> int:
    """Return about how large the tensors of a case are."""
    return prod(value for value in case.axes.values() if isinstance(value, int) and value > 1)


def with_the_night(request: pytest.FixtureRequest) -> bool:
    """Return whether a test of the night is among the tests of this file: a fixture then makes what it reads, too."""
    own = (item for item in request.session.items if item.path == request.path)
    return any(item.get_closest_marker("nightly") for item in own)
