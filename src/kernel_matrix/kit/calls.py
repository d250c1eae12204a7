"""The order in which a kernel, plain code and a baseline get their arrays. Both processes of a job use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def as_called(names: Iterable[str], values: Mapping[str, Any], *, there: bool = True) -> list[Any]:
    """Return values in the order of a call, with None for each that a case has not; nothing if none are given."""
    return [values.get(name) for name in names] if there else []
