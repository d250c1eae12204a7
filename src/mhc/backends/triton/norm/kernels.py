"""The device code of an RMSNorm behind a read, and of its gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.mhc_pre.equations import store_normed


@triton.jit(do_not_specialize=["tokens"])
def norm_kernel(
    read,
    norm_weight,
    h_in,
    s,
    scales,
    tokens,
    HIDDEN: tl.constexpr,
    NORM_EPS: tl.constexpr,
    POWERS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program normalises ``BLOCK_TOKENS`` tokens."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    squares = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = start + tl.arange(0, BLOCK_HIDDEN)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        value = tl.load(read + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0).to(tl.float32)
        squares = tl.fma(value, value, squares)
    # Root and quotient are rounded to nearest: the fast ones are two units off.
    reciprocal = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(squares, axis=1) / HIDDEN + NORM_EPS))
    tl.store(s + rows, reciprocal, mask=real)
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = start + tl.arange(0, BLOCK_HIDDEN)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        place = rows[:, None] * HIDDEN + d[None, :]
        value = tl.load(read + place, mask=mask, other=0.0).to(tl.float32) * reciprocal[:, None]
        value *= tl.load(norm_weight + d, mask=d < HIDDEN, other=0.0)[None, :]
        # The cast rounds to nearest even.
        store_normed(value.to(read.dtype.element_ty), h_in, scales, rows, real, start, HIDDEN, POWERS)


@triton.jit(do_not_specialize=["tokens"])
def norm_backward_kernel(
    read,
    norm_weight,
    s,
    grad_h_in,
    grad_read,
    tokens,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes the gradient of ``read`` for ``BLOCK_TOKENS`` tokens."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    norm = tl.load(s + rows, mask=real, other=0.0)[:, None]
    total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = start + tl.arange(0, BLOCK_HIDDEN)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        place = rows[:, None] * HIDDEN + d[None, :]
        grad = tl.load(grad_h_in + place, mask=mask, other=0.0).to(tl.float32)
        grad *= tl.load(norm_weight + d, mask=d < HIDDEN, other=0.0)[None, :]
        normed = tl.load(read + place, mask=mask, other=0.0).to(tl.float32) * norm
        total = tl.fma(grad, normed, total)
    slope = (tl.sum(total, axis=1) / HIDDEN)[:, None]
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = start + tl.arange(0, BLOCK_HIDDEN)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        place = rows[:, None] * HIDDEN + d[None, :]
        grad = tl.load(grad_h_in + place, mask=mask, other=0.0).to(tl.float32)
        grad *= tl.load(norm_weight + d, mask=d < HIDDEN, other=0.0)[None, :]
        normed = tl.load(read + place, mask=mask, other=0.0).to(tl.float32) * norm
        tl.store(grad_read + place, (norm * (grad - slope * normed)).to(grad_read.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["tokens", "chunk"])
def norm_weight_kernel(
    read,
    s,
    grad_h_in,
    chunks,
    tokens,
    chunk,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program adds up ``chunk`` tokens of some columns of the weight's gradient, into [chunks, hidden]."""
    d = tl.program_id(0) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    long = tl.zeros([], dtype=tl.int64) + tokens
    first = tl.program_id(1).to(tl.int64) * chunk
    last = tl.minimum(first + chunk, long)
    total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for start in range(first, last, BLOCK_TOKENS):
        rows = start + tl.arange(0, BLOCK_TOKENS)
        real = rows < last
        mask = real[:, None] & (d < HIDDEN)[None, :]
        place = rows[:, None] * HIDDEN + d[None, :]
        grad = tl.load(grad_h_in + place, mask=mask, other=0.0).to(tl.float32)
        normed = tl.load(read + place, mask=mask, other=0.0).to(tl.float32)
        normed *= tl.load(s + rows, mask=real, other=0.0)[:, None]
        total = tl.fma(grad, normed, total)
    tl.store(chunks + tl.program_id(1).to(tl.int64) * HIDDEN + d, tl.sum(total, axis=0), mask=d < HIDDEN)


@triton.jit(do_not_specialize=["count"])
def norm_weight_sums_kernel(chunks, grad, count, HIDDEN: tl.constexpr, BLOCK: tl.constexpr):
    """One program adds up ``BLOCK`` columns over the chunks."""
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for chunk in range(count):
        total += tl.load(chunks + chunk * HIDDEN + d, mask=d < HIDDEN, other=0.0)
    tl.store(grad + d, total, mask=d < HIDDEN)
