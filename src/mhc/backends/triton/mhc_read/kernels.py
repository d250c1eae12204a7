"""The device code of ``mhc_read`` and its gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.vectors import tile


@triton.jit(do_not_specialize=["tokens"])
def mhc_read_kernel(
    x,
    pre,
    h_in,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes one tile of tokens by hidden."""
    block, column = tile(HIDDEN, BLOCK_HIDDEN)
    rows = block.to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    d = column * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    mask = real[:, None] & (d < HIDDEN)[None, :]
    total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for stream in tl.static_range(STREAMS):
        weight = tl.load(pre + rows * STREAMS + stream, mask=real, other=0.0)
        value = tl.load(x + rows[:, None] * (STREAMS * HIDDEN) + (stream * HIDDEN + d)[None, :], mask=mask, other=0.0)
        total += weight[:, None] * value.to(tl.float32)
    # The cast rounds to nearest even.
    tl.store(h_in + rows[:, None] * HIDDEN + d[None, :], total.to(h_in.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["tokens"])
def mhc_read_backward_kernel(
    x,
    pre,
    grad_h_in,
    grad_x,
    grad_pre,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` tokens; a gradient of None is left out.

    Its rows are as many as its warps, so that no sum over columns leaves a warp.
    """
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    wide = rows[:, None] * (STREAMS * HIDDEN)
    sums = ()
    for _ in tl.static_range(STREAMS):
        sums = sums + (tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32),)
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = start + tl.arange(0, BLOCK_HIDDEN)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        grad = tl.load(grad_h_in + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0).to(tl.float32)
        added = ()
        for stream in tl.static_range(STREAMS):
            place = wide + (stream * HIDDEN + d)[None, :]
            if grad_x is not None:
                weight = tl.load(pre + rows * STREAMS + stream, mask=real, other=0.0)
                # The cast rounds to nearest even.
                tl.store(grad_x + place, (weight[:, None] * grad).to(grad_x.dtype.element_ty), mask=mask)
            if grad_pre is not None:
                value = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
                added = added + (tl.fma(grad, value, sums[stream]),)
        if grad_pre is not None:
            sums = added
    if grad_pre is not None:
        for stream in tl.static_range(STREAMS):
            tl.store(grad_pre + rows * STREAMS + stream, tl.sum(sums[stream], axis=1), mask=real)
