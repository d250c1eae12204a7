"""The device code of ``expand``."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.vectors import tile


@triton.jit(do_not_specialize=["tokens"])
def expand_kernel(
    x,
    out,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program copies one tile of tokens by hidden to all streams."""
    block, column = tile(HIDDEN, BLOCK_HIDDEN)
    rows = block.to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)[:, None]
    d = column * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)[None, :]
    mask = (rows < tokens) & (d < HIDDEN)
    value = tl.load(x + rows * HIDDEN + d, mask=mask)
    for stream in tl.static_range(STREAMS):
        tl.store(out + rows * (STREAMS * HIDDEN) + (stream * HIDDEN + d), value, mask=mask)
