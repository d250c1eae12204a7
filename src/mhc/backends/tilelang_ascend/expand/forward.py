"""The kernel of ``expand``: a core copies one token's columns to all streams."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.ascend.language as T

from mhc.backends.tilelang_ascend.tiles import DTYPES, columns_of
from mhc.ops.expand import ExpandSpec


def expand(spec: ExpandSpec) -> Any:
    """Return ``expand`` as a prim_func; it only moves data."""
    streams, hidden, dtype, width = spec.streams, spec.hidden, DTYPES[spec.dtype], columns_of(spec.hidden)
    tokens = T.dynamic("tokens")

    @T.prim_func
    def expand(x: T.Tensor((tokens, hidden), dtype), out: T.Tensor((tokens, streams, hidden), dtype)):
        with T.Kernel(tokens) as token:
            tile = T.alloc_shared((width,), dtype)
            for block in T.serial(hidden // width):
                T.copy(x[token, block * width : block * width + width], tile)
                for i in T.serial(streams):
                    T.copy(tile, out[token, i, block * width : block * width + width])

    return expand
