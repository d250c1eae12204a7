"""The device code of ``mhc_pre`` and ``mhc_head`` for few mixes: one launch, with the sums of all mixes in registers.

One source for NVIDIA, AMD and Triton's interpreter.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.mhc_pre.equations import reciprocal_rms, sigmoid
from mhc.backends.triton.vectors import fold, span


@triton.jit
def project(
    x_rows,
    real,
    phi,
    gamma,
    WIDTH: tl.constexpr,
    MIXES: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """Return each token's sum of squares, and of each mix the partial sums, which axis 1 is to add up.

    This is not a ``tl.dot``: in fp32 that is no tensor-core operation on NVIDIA, but passes both operands through
    shared memory, where threads that read neighbouring rows of phi meet in one bank. Here a thread keeps partial sums
    of every mix in registers, and phi comes through the cache in the layout of x.
    """
    LANES: tl.constexpr = BLOCK_WIDTH // VECTOR
    squares = tl.zeros([BLOCK_TOKENS, LANES], dtype=tl.float32)
    sums = ()
    for _ in tl.static_range(MIXES):
        sums = sums + (tl.zeros([BLOCK_TOKENS, LANES], dtype=tl.float32),)
    for start in range(0, WIDTH, BLOCK_WIDTH):
        k = span(start, BLOCK_WIDTH, VECTOR)
        inside = k < WIDTH
        v = tl.load(x_rows + k[None, :], mask=real[:, None] & inside[None, :], other=0.0).to(tl.float32)
        # Before gamma, which is no part of the root mean square.
        squares += fold(v * v, VECTOR)
        if gamma is not None:
            v *= tl.load(gamma + k, mask=inside, other=0.0)[None, :]
        phi_k = phi + k
        added = ()
        for mix in tl.static_range(MIXES):
            weights = tl.load(phi_k + mix * WIDTH, mask=inside, other=0.0)
            added = added + (sums[mix] + fold(v * weights[None, :], VECTOR),)
        sums = added
    return tl.sum(squares, axis=1), sums


@triton.jit(do_not_specialize=["tokens"])  # else one token, and multiples of 16, would each be another compilation
def mhc_pre_kernel(
    x,
    phi,
    alpha,
    bias,
    gamma,
    pre,
    h_in,
    h_pre,
    h_post,
    h_res,
    m,
    r,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    NORM_EPS: tl.constexpr,
    PRE_EPS: tl.constexpr,
    POST_SCALE: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` tokens; nothing in it crosses from one row of its tiles to another.

    With as many ``MIXES`` as streams it is ``mhc_head``, and h_post and h_res are None. Where ``pre`` is given, h_in is
    read with it. h_in and h_pre are None where they are not asked for.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN

    # 64 bits from here on: tokens · n · hidden passes 2³¹ long before the memory of a GPU is full.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    x_rows = x + rows[:, None] * WIDTH
    squares, sums = project(x_rows, real, phi, gamma, WIDTH, MIXES, BLOCK_TOKENS, BLOCK_WIDTH, VECTOR)
    reciprocal = reciprocal_rms(squares, WIDTH, NORM_EPS)
    tl.store(r + rows, reciprocal, mask=real)

    weights = ()
    for mix in tl.static_range(MIXES):
        gate = tl.load(alpha + (0 if mix < STREAMS else 1 if mix < 2 * STREAMS else 2))
        projection = tl.sum(sums[mix], axis=1) * reciprocal
        tl.store(m + rows * MIXES + mix, projection, mask=real)
        logit = gate * projection + tl.load(bias + mix)
        if mix < STREAMS:
            weight = sigmoid(logit) + PRE_EPS
            if h_pre is not None:
                tl.store(h_pre + rows * STREAMS + mix, weight, mask=real)
            if pre is not None:
                weight = tl.load(pre + rows * STREAMS + mix, mask=real, other=0.0)
            weights = weights + (weight,)
        elif mix < 2 * STREAMS:
            tl.store(h_post + rows * STREAMS + (mix - STREAMS), POST_SCALE * sigmoid(logit), mask=real)
        else:
            tl.store(h_res + rows * (MIXES - 2 * STREAMS) + (mix - 2 * STREAMS), logit, mask=real)

    if h_in is not None:
        for start in range(0, HIDDEN, BLOCK_HIDDEN):
            d = span(start, BLOCK_HIDDEN, VECTOR)
            mask = real[:, None] & (d < HIDDEN)[None, :]
            layer_input = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
            for stream in tl.static_range(STREAMS):
                value = tl.load(x_rows + (stream * HIDDEN + d)[None, :], mask=mask, other=0.0)
                layer_input += weights[stream][:, None] * value.to(tl.float32)
            # The cast rounds to nearest even.
            tl.store(h_in + rows[:, None] * HIDDEN + d[None, :], layer_input.to(h_in.dtype.element_ty), mask=mask)
