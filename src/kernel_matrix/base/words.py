"""Numbers and lists in sentences."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice


def counted(number: int, noun: str, several: str = "") -> str:
    """Return a number and its noun, which gets an s, or is ``several``, unless the number is one."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def some(names: Collection[str], most: int = 3) -> str:
    """Return the first names, and how many more there are: ``a, b and 7 more``."""
    return and_more(", ".join(islice(names, most)), len(names) - most)


def and_more(text: str, more: int) -> str:
    """Return what is named, and how many more there are, if there are any."""
    return f"{text} and {more} more" if more > 0 else text
