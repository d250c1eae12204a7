"""The device code of ``mhc_post``'s gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.vectors import fold, span


@triton.jit(do_not_specialize=["tokens"])
def mhc_post_backward_kernel(
    x,
    y,
    h_post,
    h_res,
    grad_out,
    grad_x,
    grad_y,
    grad_h_post,
    grad_h_res,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` tokens, on a GPU each in a warp of its own.

    The gradients of the coefficients are dot products over hidden. A thread keeps partial sums of all of them, so that
    x, y and grad_out are read once.
    """
    SQUARE: tl.constexpr = STREAMS * STREAMS
    LANES: tl.constexpr = BLOCK_HIDDEN // VECTOR

    # 64 bits from here on: tokens · n · hidden passes 2³¹ long before the memory of a GPU is full.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    wide = rows[:, None] * (STREAMS * HIDDEN)
    narrow = rows[:, None] * HIDDEN

    sums = ()
    for _ in tl.static_range(SQUARE + STREAMS):
        sums = sums + (tl.zeros([BLOCK_TOKENS, LANES], dtype=tl.float32),)
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = span(start, BLOCK_HIDDEN, VECTOR)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        written = tl.load(y + narrow + d[None, :], mask=mask, other=0.0).to(tl.float32)
        streams = ()
        for j in tl.static_range(STREAMS):
            value = tl.load(x + wide + (j * HIDDEN + d)[None, :], mask=mask, other=0.0)
            streams = streams + (value.to(tl.float32),)
        grads = ()
        for i in tl.static_range(STREAMS):
            value = tl.load(grad_out + wide + (i * HIDDEN + d)[None, :], mask=mask, other=0.0)
            grads = grads + (value.to(tl.float32),)

        added = ()
        for i in tl.static_range(STREAMS):
            for j in tl.static_range(STREAMS):
                added = added + (sums[i * STREAMS + j] + fold(grads[i] * streams[j], VECTOR),)
        for i in tl.static_range(STREAMS):
            added = added + (sums[SQUARE + i] + fold(grads[i] * written, VECTOR),)
        sums = added

        for j in tl.static_range(STREAMS):
            total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
            for i in tl.static_range(STREAMS):
                weight = tl.load(h_res + rows * SQUARE + (i * STREAMS + j), mask=real, other=0.0)
                total += weight[:, None] * grads[i]
            # The cast rounds to nearest even.
            result = total.to(grad_x.dtype.element_ty)
            tl.store(grad_x + wide + (j * HIDDEN + d)[None, :], result, mask=mask)
        total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
        for i in tl.static_range(STREAMS):
            weight = tl.load(h_post + rows * STREAMS + i, mask=real, other=0.0)
            total += weight[:, None] * grads[i]
        tl.store(grad_y + narrow + d[None, :], total.to(grad_y.dtype.element_ty), mask=mask)

    for index in tl.static_range(SQUARE):
        tl.store(grad_h_res + rows * SQUARE + index, tl.sum(sums[index], axis=1), mask=real)
    for index in tl.static_range(STREAMS):
        tl.store(grad_h_post + rows * STREAMS + index, tl.sum(sums[SQUARE + index], axis=1), mask=real)
