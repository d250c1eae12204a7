"""The changes of a launch in memory, as the recorder writes it into files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Change:
    """The elements of a tensor that were changed: their places, what was there, and what is there now."""

    where: Any
    before: Any
    after: Any


Changes = Mapping[str, Change]


def changes_in(path: Path) -> Changes:
    """Return what a launch has changed, by the name and the dtype of the tensor."""
    with np.load(path) as arrays:
        names = dict.fromkeys(key.rpartition(" ")[0] for key in arrays)
        return {name: Change(*(arrays[f"{name} {part}"] for part in ("where", "before", "after"))) for name in names}


def at(where: Any, change: Change, others: Iterable[Change], *, before: bool = False) -> Any:
    """Return the elements at these places: after a change, or as they were where it did not change them."""
    found = np.zeros(where.size, change.after.dtype)
    for one in (*others, change):
        places = np.searchsorted(where, one.where)
        inside = (places < where.size) & (where[np.minimum(places, where.size - 1)] == one.where)
        found[places[inside]] = one.before[inside]
    if not before:
        places = np.searchsorted(where, change.where)
        inside = (places < where.size) & (where[np.minimum(places, where.size - 1)] == change.where)
        found[places[inside]] = change.after[inside]
    return found
