"""The sizes that a kernel is compiled for: they are constants in its code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

THREADS = 128  # of every block

_BYTES = 16  # of the widest load, and the alignment that it needs


@dataclass(frozen=True)
class Sizes:
    """The constants of a kernel: ``vector`` elements of a row are loaded at once, and ``mixes`` are rows of phi.

    The constants of ``mhc_pre`` are here too, as each has the same value in all calls of a model.
    """

    streams: int
    hidden: int
    vector: int
    mixes: int = 0
    gamma: bool = False
    norm_eps: float = 0.0
    pre_eps: float = 0.0
    post_scale: float = 0.0

    @property
    def width(self) -> int:
        """Return the elements of all streams of a token."""
        return self.streams * self.hidden

    @property
    def packs(self) -> int:
        """Return the vectors of a row."""
        return self.hidden // self.vector


def sizes_of(spec: Any, tensors: Iterable[torch.Tensor | None] = ()) -> Sizes:
    """Return the constants for a specialisation; rows that are not aligned are loaded one element at a time."""
    aligned = all(tensor is None or tensor.data_ptr() % _BYTES == 0 for tensor in tensors)
    options = {
        name: getattr(spec, name)
        for name in ("mixes", "gamma", "norm_eps", "pre_eps", "post_scale")
        if hasattr(spec, name)
    }
    return Sizes(spec.streams, spec.hidden, 4 if aligned and spec.hidden % 4 == 0 else 1, **options)
