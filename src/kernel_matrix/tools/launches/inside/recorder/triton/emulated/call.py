"""One call of a kernel of Triton, and its launch by any launcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..launch import Launch
from . import files, reference
from .memory import Region, regions_of, tensors_in


@dataclass
class Call:
    """One call of a kernel, with its arguments and its grid."""

    kernel: Any
    launch: Launch
    bound: Mapping[str, Any]
    grid: Sequence[int]

    def regions(self) -> list[Region]:
        """Return the storages of the tensors."""
        return regions_of(tensors_in(dict(self.bound)))

    def go_on(self, folder: Path | None) -> None:
        """Compute with rounding, and write the numbers into the tensors, and what has changed into the folder."""
        before = [region.bytes.copy() for region in self.regions()] if folder else []
        for region in (regions := reference.compute(self.kernel, self.bound, self.grid, rounds=True)):
            region.write_back()
        if folder:
            files.save_bits(folder / "eager.npz", regions, before)


def run(call: Call, program: Any, launcher: Any) -> list[str]:
    """Run the machine code on the tensors, and return the findings."""
    import torch

    from gpu_emulators.common.errors import FoundError

    x, y, z = [*map(int, call.grid), 1, 1][:3]
    with torch._C.DisableTorchFunction():
        try:
            launcher(x, y, z, None, program, None, None, None, None, *map(_bare, call.bound.values()))
        except FoundError as error:
            return [str(finding) for finding in error.findings]
    return []


def _bare(value: Any) -> Any:
    """Return the tensor that another dtype's view of it wraps."""
    return value.base if hasattr(value, "base") and hasattr(value, "data_ptr") else value
