"""The device code of ``mhc_pre``: one source for NVIDIA, AMD and Triton's interpreter."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _column(tile, columns, index):
    """Column ``index`` of ``tile``: a sum of one value and zeros, so exact in any order."""
    return tl.sum(tl.where(columns[None, :] == index, tile, 0.0), axis=1)


@triton.jit(do_not_specialize=["tokens"])  # else one token, and multiples of 16, would each be another compilation
def mhc_pre_kernel(
    x,
    phi,
    alpha,
    bias,
    gamma,
    h_in,
    h_post,
    h_res,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    NORM_EPS: tl.constexpr,
    PRE_EPS: tl.constexpr,
    MIXES_PADDED: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` tokens; nothing in it crosses from one row of its tiles to another."""
    WIDTH: tl.constexpr = STREAMS * HIDDEN
    MIXES: tl.constexpr = STREAMS * (STREAMS + 2)

    # 64 bits from here on: tokens · n · hidden passes 2³¹ long before the memory of a GPU is full.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    columns = tl.arange(0, MIXES_PADDED)
    mixed = columns < MIXES
    x_rows = x + rows[:, None] * WIDTH
    phi_rows = phi + columns.to(tl.int64)[:, None] * WIDTH

    mixes = tl.zeros([BLOCK_TOKENS, MIXES_PADDED], dtype=tl.float32)
    squares = tl.zeros([BLOCK_TOKENS, BLOCK_WIDTH], dtype=tl.float32)
    for start in range(0, WIDTH, BLOCK_WIDTH):
        k = start + tl.arange(0, BLOCK_WIDTH)
        inside = k < WIDTH
        v = tl.load(x_rows + k[None, :], mask=real[:, None] & inside[None, :], other=0.0).to(tl.float32)
        weights = tl.load(phi_rows + k[None, :], mask=mixed[:, None] & inside[None, :], other=0.0)
        squares += v * v  # before gamma, which is no part of the root mean square
        if gamma is not None:
            v *= tl.load(gamma + k, mask=inside, other=0.0)[None, :]
        # "ieee": fp32 products. The default on NVIDIA is TF32.
        mixes = tl.dot(v, tl.trans(weights), mixes, input_precision="ieee")

    # Root and quotient rounded to nearest: the fast ones are two units off, and the error would scale all of m.
    r = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(squares, axis=1) / WIDTH + NORM_EPS))

    # The columns are pre (n), post (n), res (n²) and padding. All are computed alike, then each is stored where it goes.
    post = (columns >= STREAMS) & (columns < 2 * STREAMS)
    res = (columns >= 2 * STREAMS) & mixed
    gate = tl.load(alpha + tl.where(columns < STREAMS, 0, tl.where(columns < 2 * STREAMS, 1, 2)))
    logits = gate[None, :] * (mixes * r[:, None]) + tl.load(bias + columns, mask=mixed, other=0.0)[None, :]
    # exp is the hardware's approximation of 2^x on NVIDIA; the slope of the sigmoid leaves 1e-7 of its error at most.
    sigmoid = tl.div_rn(1.0, 1.0 + tl.exp(-logits))
    tl.store(
        h_post + rows[:, None] * STREAMS + (columns - STREAMS)[None, :],
        2.0 * sigmoid,
        mask=real[:, None] & post[None, :],
    )
    tl.store(
        h_res + rows[:, None] * (STREAMS * STREAMS) + (columns - 2 * STREAMS)[None, :],
        logits,
        mask=real[:, None] & res[None, :],
    )

    h_pre = sigmoid + PRE_EPS
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = start + tl.arange(0, BLOCK_HIDDEN)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        layer_input = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
        for stream in tl.static_range(STREAMS):
            # Stands inside the loop for the language's sake; the compiler moves it out, as it does not depend on d.
            weight = _column(h_pre, columns, stream)
            value = tl.load(x_rows + (stream * HIDDEN + d)[None, :], mask=mask, other=0.0)
            layer_input += weight[:, None] * value.to(tl.float32)
        # The cast rounds to nearest even.
        tl.store(h_in + rows[:, None] * HIDDEN + d[None, :], layer_input.to(h_in.dtype.element_ty), mask=mask)
