"""Device functions that lay a tile out over threads."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def span(start, SIZE: tl.constexpr, VECTOR: tl.constexpr):
    """Return offsets from ``start`` on, of which a thread is to own ``VECTOR`` neighbours, in bf16 x as in fp32 phi.

    The hint claims less than the compiler finds by itself. Without it, x would have another layout of vectors than phi,
    and phi would go through shared memory to be brought into that layout.
    """
    offsets = start + tl.arange(0, SIZE)
    if VECTOR > 1:
        offsets = tl.max_contiguous(offsets, VECTOR)
    return offsets


@triton.jit
def fold(tile, VECTOR: tl.constexpr):
    """Add up each ``VECTOR`` neighbours of a row: those that one thread holds, so that nothing is exchanged."""
    folded = tile
    if VECTOR > 1:
        folded = tl.sum(tl.reshape(tile, [tile.shape[0], tile.shape[1] // VECTOR, VECTOR]), axis=2)
    return folded
