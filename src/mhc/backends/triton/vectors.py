"""Device functions that lay a tile out over threads."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile(HIDDEN: tl.constexpr, BLOCK_HIDDEN: tl.constexpr):
    """Return a program's block of tokens and its block of columns.

    All columns of some tokens come one after the other, as they lie in memory: on an H200 ``mhc_post`` then takes 2 to
    4 % less time than with all tokens of some columns.
    """
    BLOCKS: tl.constexpr = (HIDDEN + BLOCK_HIDDEN - 1) // BLOCK_HIDDEN

    return tl.program_id(0) // BLOCKS, tl.program_id(0) % BLOCKS


@triton.jit
def real_if(condition, rows, tokens):
    """Return which rows are below ``tokens``: none where a condition of the whole program does not hold.

    In the interpreter a mask that is made with ``&`` of such a condition has 32 bits, which Triton 3.9 refuses.
    """
    return rows < tl.where(condition, tokens, 0)


@triton.jit
def span(start, SIZE: tl.constexpr, VECTOR: tl.constexpr):
    """Return offsets from ``start`` on; a thread is to own ``VECTOR`` neighbours, in bf16 x as in fp32 phi.

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


@triton.jit
def columns(tile, VECTOR: tl.constexpr):
    """Return ``VECTOR`` tensors, each with one of the ``VECTOR`` neighbours that a thread holds, up to eight.

    Their order is not the neighbours' order, but it is the same for all tiles of one shape.
    """
    ROWS: tl.constexpr = tile.shape[0]
    LANES: tl.constexpr = tile.shape[1] // VECTOR
    parts = (tile,)
    for level in tl.static_range(3):
        if VECTOR >> level > 1:
            halves = ()
            for k in tl.static_range(1 << level):
                even, odd = tl.split(tl.reshape(parts[k], [ROWS, LANES, VECTOR >> level + 1, 2]))
                halves = halves + (even, odd)
            parts = halves
    flat = ()
    for k in tl.static_range(VECTOR):
        flat = flat + (tl.reshape(parts[k], [ROWS, LANES]),)
    return flat
