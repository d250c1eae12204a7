"""Write a number and what is counted, such as ``1 case`` and ``2 cases``."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, with an s behind it unless the number is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
