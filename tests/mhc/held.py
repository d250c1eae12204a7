"""Raise where something does not hold. ``python -O`` removes ``assert`` statements, and with them every check."""

from __future__ import annotations


def hold(true: bool, text: str) -> None:
    """Raise an error with ``text`` unless ``true``.

    Raises:
        AssertionError: it is not true.
    """
    if not true:
        raise AssertionError(text)
