"""The device code of ``mhc_post_pre``'s gradient: that of the new streams stays in registers.

With the coefficients c, h_pre and slope of :mod:`mhc.backends.triton.mhc_pre.backward`::

    dout_i    = grad_out_i + h_pre_i · dh_in + slope · out_i + gamma_i · Σₒ c_o · phi_o,i
    dx_j      = Σᵢ h_res[i, j] · dout_i                   dy        = Σᵢ h_post_i · dout_i
    dh_res_ij = Σ dout_i · x_j                            dh_post_i = Σ dout_i · y
"""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.mhc_post.backward import product, weights_of, write_back


@triton.jit
def through_projection(c, c_middle, place, inside, LINE: tl.constexpr, PADDED: tl.constexpr, FORM: tl.constexpr):
    """Return the product of a tile of coefficients and the columns of the weights at ``place``.

    A result in bf16 needs 16 bits of both factors.
    """
    high = tl.load(place, mask=inside, other=0.0)
    if FORM == "bf16x3":
        result = tl.dot(c, tl.load(place + PADDED * LINE, mask=inside, other=0.0))
        result = tl.dot(c_middle, high, result)
        result = tl.dot(c, high, result)
    else:
        result = tl.dot(c, high, input_precision=FORM)
    return result


@triton.jit(do_not_specialize=["tokens"])
def post_pre_backward_kernel(
    x,
    y,
    h_post,
    h_res,
    out,
    weights,
    grad_h_in,
    grad_out,
    coefficients,
    scales,
    grad_x,
    grad_y,
    post_parts,
    res_parts,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    LINE: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    STAGES: tl.constexpr,
    PARTS: tl.constexpr,
    PART: tl.constexpr,
):
    """One program takes a block of tokens through one part of the columns; gradients of None are left out.

    ``post_parts`` is [PARTS, tokens, n] and ``res_parts`` [PARTS, tokens, n, n]: partial sums of the gradients of
    h_post and h_res, which :func:`add_parts_kernel` adds up. What is fused is written out, so that no gradient has a
    part in the bits of another.
    """
    SQUARE: tl.constexpr = STREAMS * STREAMS

    # The last tokens come first: those are in the cache when the pass before this one ends.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    part = program % PARTS
    rows = (program // PARTS).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    wide = rows[:, None] * (STREAMS * HIDDEN)
    narrow = rows[:, None] * HIDDEN
    long = tl.zeros([], dtype=tl.int64) + tokens
    mixes = tl.arange(0, PADDED)
    c_place = coefficients + rows[:, None] * PADDED + mixes[None, :]
    c = tl.load(c_place, mask=real[:, None], other=0.0)
    c_middle = c
    if FORM == "bf16x3":
        c_middle = tl.load(c_place + long * PADDED, mask=real[:, None], other=0.0)

    to_res = ()
    for _ in tl.static_range(SQUARE):
        to_res = to_res + (tl.zeros([BLOCK_TOKENS], dtype=tl.float32),)
    to_post = ()
    for _ in tl.static_range(STREAMS):
        to_post = to_post + (tl.zeros([BLOCK_TOKENS], dtype=tl.float32),)
    for start in tl.range(0, PART, BLOCK_HIDDEN, num_stages=STAGES):
        d = part * PART + start + tl.arange(0, BLOCK_HIDDEN)
        inside = (d < HIDDEN)[None, :]
        mask = real[:, None] & inside
        grad = tl.load(grad_h_in + narrow + d[None, :], mask=mask, other=0.0).to(tl.float32)
        slope = tl.load(scales + STREAMS * long + rows, mask=real, other=0.0)[:, None]
        grads = ()
        for i in tl.static_range(STREAMS):
            k = i * HIDDEN + d
            place = wide + k[None, :]
            column = weights + mixes[:, None] * LINE + k[None, :]
            total = through_projection(c, c_middle, column, inside, LINE, PADDED, FORM)
            value = tl.load(out + place, mask=mask, other=0.0).to(tl.float32)
            h_pre = tl.load(scales + i * long + rows, mask=real, other=0.0)[:, None]
            total = tl.fma(h_pre, grad, tl.fma(slope, value, total))
            grads = grads + (total + tl.load(grad_out + place, mask=mask, other=0.0).to(tl.float32),)

        if res_parts is not None:
            added = ()
            for j in tl.static_range(STREAMS):
                value = tl.load(x + wide + (j * HIDDEN + d)[None, :], mask=mask, other=0.0).to(tl.float32)
                for i in tl.static_range(STREAMS):
                    added = added + (to_res[j * STREAMS + i] + tl.sum(product(grads[i], value), axis=1),)
            to_res = added
        if post_parts is not None:
            written = tl.load(y + narrow + d[None, :], mask=mask, other=0.0).to(tl.float32)
            added = ()
            for i in tl.static_range(STREAMS):
                added = added + (to_post[i] + tl.sum(product(grads[i], written), axis=1),)
            to_post = added
        if grad_x is not None:
            for j in tl.static_range(STREAMS):
                to_x = weights_of(h_res + rows * SQUARE + j, STREAMS, real, STREAMS)
                write_back(to_x, grads, grad_x + wide + (j * HIDDEN + d)[None, :], mask, STREAMS)
        if grad_y is not None:
            to_y = weights_of(h_post + rows * STREAMS, 1, real, STREAMS)
            write_back(to_y, grads, grad_y + narrow + d[None, :], mask, STREAMS)

    sums = part * long + rows
    for i in tl.static_range(STREAMS):
        if res_parts is not None:
            for j in tl.static_range(STREAMS):
                tl.store(res_parts + sums * SQUARE + (i * STREAMS + j), to_res[j * STREAMS + i], mask=real)
        if post_parts is not None:
            tl.store(post_parts + sums * STREAMS + i, to_post[i], mask=real)


@triton.jit(do_not_specialize=["size"])
def add_parts_kernel(parts, total, size, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Add up ``PARTS`` partial sums of ``size`` numbers each."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    long = tl.zeros([], dtype=tl.int64) + size
    result = tl.zeros([BLOCK], dtype=tl.float32)
    for part in tl.static_range(PARTS):
        result += tl.load(parts + part * long + place, mask=inside, other=0.0)
    tl.store(total + place, result, mask=inside)
