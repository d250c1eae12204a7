"""Count what a test loops over. Environments of toolchains import this, and have nothing that the harness needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Thing = TypeVar("Thing")


def at_least(number: int, things: Iterable[Thing]) -> list[Thing]:
    """Return things as a list, and fail where they are fewer than a test that loops over them was written for."""
    found = [*things]
    assert len(found) >= number, f"there are {len(found)}, and the test was written for {number} at least"
    return found
