"""Texts of values that are the same in every process."""

from __future__ import annotations

import re
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def text_of(value: Any) -> str:
    """Return a constant as a text that is the same in every process."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(text_of, value))})"
    if hasattr(value, "cache_key"):
        return f"{value.__name__}:{value.cache_key[:12]}"
    return _ADDRESS.sub("", str(value))
