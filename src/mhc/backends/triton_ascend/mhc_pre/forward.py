"""The device code of ``mhc_pre``, and of ``mhc_head``, which has no coefficients that write back."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def factors(alpha, k, STREAMS: tl.constexpr, WRITES_BACK: tl.constexpr):
    """Return for each mix the element of ``alpha`` that it is multiplied by."""
    result = tl.load(alpha) + tl.zeros_like(k).to(tl.float32)
    if WRITES_BACK:
        result = tl.where(k >= STREAMS, tl.load(alpha + 1), result)
        result = tl.where(k >= 2 * STREAMS, tl.load(alpha + 2), result)
    return result


@triton.jit
def read_kernel(
    x,
    phi,
    alpha,
    bias,
    gamma,
    h_in,
    h_post,
    h_res,
    m,
    r,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    GAMMA: tl.constexpr,
    WRITES_BACK: tl.constexpr,
    NORM_EPS: tl.constexpr,
    PRE_EPS: tl.constexpr,
    POST_SCALE: tl.constexpr,
):
    """One program computes one token: the mixes, block after block of its columns, and then what is read."""
    token = tl.program_id(0).to(tl.int64)
    k, lanes = tl.arange(0, PADDED), tl.arange(0, BLOCK_HIDDEN)
    real = k < MIXES
    streams = x + token * (STREAMS * HIDDEN)
    sums = tl.zeros([PADDED], tl.float32)
    squares = tl.zeros([BLOCK_HIDDEN], tl.float32)
    for i in range(STREAMS):
        for first in range(0, HIDDEN, BLOCK_HIDDEN):
            there = first + lanes < HIDDEN
            w = i * HIDDEN + first + lanes
            v = tl.load(streams + w, mask=there, other=0.0).to(tl.float32)
            squares += v * v
            if GAMMA:
                v = v * tl.load(gamma + w, mask=there, other=0.0)
            rows = k[:, None] * (STREAMS * HIDDEN) + w[None, :]
            sums += tl.sum(tl.load(phi + rows, mask=real[:, None] & there[None, :], other=0.0) * v[None, :], axis=1)
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / (STREAMS * HIDDEN) + NORM_EPS)
    mixes = sums * scale
    tl.store(m + token * MIXES + k, mixes, mask=real)
    tl.store(r + token, scale)
    logits = factors(alpha, k, STREAMS, WRITES_BACK) * mixes + tl.load(bias + k, mask=real, other=0.0)
    gates = 1.0 / (1.0 + tl.exp(-logits))
    if WRITES_BACK:
        tl.store(h_post + token * STREAMS + k - STREAMS, POST_SCALE * gates, mask=(k >= STREAMS) & (k < 2 * STREAMS))
        after = k - 2 * STREAMS
        tl.store(h_res + token * (STREAMS * STREAMS) + after, logits, mask=(after >= 0) & real)
    for first in range(0, HIDDEN, BLOCK_HIDDEN):
        there = first + lanes < HIDDEN
        total = tl.zeros([BLOCK_HIDDEN], tl.float32)
        for i in range(STREAMS):
            weight = tl.sum(tl.where(k == i, gates + PRE_EPS, 0.0), axis=0)
            total += weight * tl.load(streams + i * HIDDEN + first + lanes, mask=there, other=0.0).to(tl.float32)
        tl.store(h_in + token * HIDDEN + first + lanes, total.to(h_in.dtype.element_ty), mask=there)
