"""The device code of ``mhc_post``."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.vectors import tile


@triton.jit
def mix(h_post, h_res, row, real, streams, written, into, mask, STREAMS: tl.constexpr):
    """Store one stream of the output; ``row`` is its entry of h_post and its row of h_res."""
    total = tl.load(h_post + row, mask=real, other=0.0)[:, None] * written
    for j in tl.static_range(STREAMS):
        weight = tl.load(h_res + row * STREAMS + j, mask=real, other=0.0)
        # Of a sum of two products the compiler may fuse either, and in tiles of other sizes another one.
        total = tl.fma(tl.broadcast_to(weight[:, None], total.shape), streams[j], total)
    # The cast rounds to nearest even.
    tl.store(into, total.to(into.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["tokens"])
def mhc_post_kernel(
    x,
    y,
    h_post,
    h_res,
    out,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes one tile of tokens by hidden, for all streams."""
    # 64 bits from here on: tokens · n · hidden passes 2³¹ long before the memory of a GPU is full.
    block, column = tile(HIDDEN, BLOCK_HIDDEN)
    rows = block.to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    d = column * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    mask = real[:, None] & (d < HIDDEN)[None, :]
    x_tile = x + rows[:, None] * (STREAMS * HIDDEN) + d[None, :]
    out_tile = out + rows[:, None] * (STREAMS * HIDDEN) + d[None, :]

    streams = ()
    for j in tl.static_range(STREAMS):
        streams = streams + (tl.load(x_tile + j * HIDDEN, mask=mask, other=0.0).to(tl.float32),)
    written = tl.load(y + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0).to(tl.float32)
    if STREAMS <= 8:
        for i in tl.static_range(STREAMS):
            mix(h_post, h_res, rows * STREAMS + i, real, streams, written, out_tile + i * HIDDEN, mask, STREAMS)
    else:  # written out, n² products are too much code
        for i in range(STREAMS):
            mix(h_post, h_res, rows * STREAMS + i, real, streams, written, out_tile + i * HIDDEN, mask, STREAMS)
