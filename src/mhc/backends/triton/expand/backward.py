"""The device code of ``expand``'s gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.vectors import tile


@triton.jit(do_not_specialize=["tokens"])
def expand_backward_kernel(
    grad_out,
    grad_x,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes one tile of tokens by hidden."""
    block, column = tile(HIDDEN, BLOCK_HIDDEN)
    rows = block.to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)[:, None]
    d = column * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)[None, :]
    mask = (rows < tokens) & (d < HIDDEN)
    total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for stream in tl.static_range(STREAMS):
        value = tl.load(grad_out + rows * (STREAMS * HIDDEN) + (stream * HIDDEN + d), mask=mask, other=0.0)
        total += value.to(tl.float32)
    # The cast rounds to nearest even.
    tl.store(grad_x + rows * HIDDEN + d, total.to(grad_x.dtype.element_ty), mask=mask)
