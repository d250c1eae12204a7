"""The order in which a kernel, plain code and a baseline get their arrays. Both processes of a job use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def as_called(names: Iterable[str], values: Mapping[str, Any], *, there: bool = True) -> list[Any]:
    """Return values in the order of a call, with None for each that a case has not; nothing if none are given."""
    return [values.get(name) for name in names] if there else []


def by_name(result: Any, every: Sequence[str], there: Sequence[str]) -> dict[str, Any]:
    """Return what a call gave by the names of the outputs that a case has: of all in their order, or of these alone."""
    if isinstance(result, Mapping):
        if result.keys() & set(there):
            return {name: result[name] for name in there if name in result}
        result = list(result.values())
    several = list(result) if isinstance(result, (tuple, list)) else [result]
    names = every if len(several) == len(every) else there
    return {name: one for name, one in zip(names, several, strict=False) if name in there}
