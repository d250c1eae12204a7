"""Write what a launch has changed in memory into files, which the harness compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .memory import Region


def values(regions: Sequence[Region]) -> list[Any]:
    """Return the numbers that tensors hold, or their bytes."""
    return [region.bytes.copy() if region.values is None else region.values.copy() for region in regions]


def save_values(file: Path, regions: Sequence[Region], before: Sequence[Any]) -> None:
    """Write the elements that were written: their places, what was there, and what is there now."""
    arrays: dict[str, Any] = {}
    for region, old in zip(regions, before, strict=True):
        if region.values is not None:
            where = np.flatnonzero(region.written)
            arrays |= _three(region, where, old[where], region.values[where])
        else:
            arrays |= _changed(region, old)
    _save(file, arrays)


def save_bits(file: Path, regions: Sequence[Region], before: Sequence[Any]) -> None:
    """Write the elements whose bits have changed."""
    arrays: dict[str, Any] = {}
    for region, old in zip(regions, before, strict=True):
        arrays |= _changed(region, old)
    _save(file, arrays)


def _changed(region: Region, before: Any) -> dict[str, Any]:
    width = region.size // region.written.size
    kind = np.dtype(f"u{width}") if width in (1, 2, 4, 8) else np.dtype(f"V{width}")
    old, new = before.view(kind), region.bytes.view(kind)
    where = np.flatnonzero(old != new)
    return _three(region, where, old[where], new[where])


def _three(region: Region, where: Any, before: Any, after: Any) -> dict[str, Any]:
    name = f"{region.name} {region.dtype.removeprefix('torch.')}"
    return {f"{name} where": where, f"{name} before": before, f"{name} after": after}


def _save(file: Path, arrays: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part.npz")
    np.savez(part, **dict(arrays))
    part.replace(file)
