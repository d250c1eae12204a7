"""The types of options that are numbers. A bare ``int`` or ``float`` takes -1 and NaN, which no limit compares with."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress
from threading import TIMEOUT_MAX


def above_zero(text: str) -> float:
    """Return the time, or another quantity, that an option gives.

    Raises:
        ArgumentTypeError: it is none.
    """
    with suppress(ValueError):
        if 0 < (number := float(text)) <= TIMEOUT_MAX:
            return number
    raise ArgumentTypeError(f"{text}: give a number above 0.")


def whole(least: int) -> Callable[[str], int]:
    """Return the type of an option that is a whole number from ``least`` on."""

    def convert(text: str) -> int:
        with suppress(ValueError):
            if (number := int(text)) >= least:
                return number
        raise ArgumentTypeError(f"{text}: give a whole number from {least} on.")

    return convert
