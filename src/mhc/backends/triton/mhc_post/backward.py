"""The device code of ``mhc_post``'s gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.vectors import columns, real_if


@triton.jit
def add_products(total, grads, values, VECTOR: tl.constexpr):
    """Return total + the sum of grads · values.

    Written as fma: the compiler would fuse some of the products with the sum that follows, and others of them where
    other gradients are asked for. The bits would then depend on these.
    """
    for k in tl.static_range(VECTOR):
        total = tl.fma(grads[k], values[k], total)
    return total


@triton.jit
def weights_of(place, STRIDE: tl.constexpr, real, STREAMS: tl.constexpr):
    """Return the weight of every stream in one sum."""
    weights = ()
    for i in tl.static_range(STREAMS):
        weights = weights + (tl.load(place + i * STRIDE, mask=real, other=0.0),)
    return weights


@triton.jit
def write_back(weights, grads, into, mask, STREAMS: tl.constexpr):
    """Store the sum of the gradients of all streams, each by its weight."""
    total = weights[0][:, None] * grads[0]
    for i in tl.static_range(1, STREAMS):
        # Written as fma: which of two products the compiler fuses with a sum depends on the code around it, and with it
        # the bits, which would then depend on the gradients that are asked for.
        total = tl.fma(weights[i][:, None], grads[i], total)
    # The cast rounds to nearest even. What is written is not read again soon: it leaves the cache to the rest.
    tl.store(into, total.to(into.dtype.element_ty), mask=mask, cache_modifier=".cs")


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
    ROWS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    VECTOR: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` tokens; gradients of None are left out.

    The gradients of the coefficients are dot products over hidden. A thread keeps partial sums of ``ROWS`` rows of
    h_res and entries of h_post, so that x, y and grad_out are read once. Where these are not all of the streams, the
    programs along the grid's second axis have the next rows each. They then compute nothing of grad_x and grad_y, which
    need every row of grad_out.
    """
    SQUARE: tl.constexpr = STREAMS * STREAMS
    LANES: tl.constexpr = BLOCK_HIDDEN // VECTOR

    # 64 bits from here on: tokens · n · hidden passes 2³¹ long before the memory of a GPU is full.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    wide = rows[:, None] * (STREAMS * HIDDEN)
    narrow = rows[:, None] * HIDDEN
    first = 0 if ROWS == STREAMS else tl.program_id(1) * ROWS

    # Of few streams the weights are loaded once. A load in the loop would wait in each turn.
    KEPT: tl.constexpr = STREAMS <= 4
    to_x = ()
    if KEPT:
        for j in tl.static_range(STREAMS):
            to_x = to_x + (weights_of(h_res + rows * SQUARE + j, STREAMS, real, STREAMS),)
        to_y = weights_of(h_post + rows * STREAMS, 1, real, STREAMS)

    to_res = ()
    for _ in tl.static_range(ROWS * STREAMS):
        to_res = to_res + (tl.zeros([BLOCK_TOKENS, LANES], dtype=tl.float32),)
    to_post = ()
    for _ in tl.static_range(ROWS):
        to_post = to_post + (tl.zeros([BLOCK_TOKENS, LANES], dtype=tl.float32),)
    for start in tl.range(0, HIDDEN, BLOCK_HIDDEN, num_stages=STAGES):
        d = start + tl.arange(0, BLOCK_HIDDEN)
        inside = (d < HIDDEN)[None, :]
        mask = real[:, None] & inside
        grads = ()
        cut_grads = ()
        for i in tl.static_range(ROWS):
            there = mask
            if ROWS != STREAMS:
                there = real_if(first + i < STREAMS, rows, tokens)[:, None] & inside
            value = tl.load(grad_out + wide + ((first + i) * HIDDEN + d)[None, :], mask=there, other=0.0)
            grads = grads + (value.to(tl.float32),)
            cut_grads = cut_grads + (columns(value.to(tl.float32), VECTOR),)

        if grad_h_res is not None:
            streams = ()
            for j in tl.static_range(STREAMS):
                value = tl.load(x + wide + (j * HIDDEN + d)[None, :], mask=mask, other=0.0)
                streams = streams + (columns(value.to(tl.float32), VECTOR),)
            added = ()
            for i in tl.static_range(ROWS):
                for j in tl.static_range(STREAMS):
                    added = added + (add_products(to_res[i * STREAMS + j], cut_grads[i], streams[j], VECTOR),)
            to_res = added
        if grad_h_post is not None:
            written = columns(tl.load(y + narrow + d[None, :], mask=mask, other=0.0).to(tl.float32), VECTOR)
            added = ()
            for i in tl.static_range(ROWS):
                added = added + (add_products(to_post[i], cut_grads[i], written, VECTOR),)
            to_post = added

        if grad_x is not None:
            x_tile = grad_x + wide + d[None, :]
            if KEPT:
                for j in tl.static_range(STREAMS):
                    write_back(to_x[j], grads, x_tile + j * HIDDEN, mask, STREAMS)
            elif ROWS <= 8:
                for j in tl.static_range(STREAMS):
                    weights = weights_of(h_res + rows * SQUARE + j, STREAMS, real, STREAMS)
                    write_back(weights, grads, x_tile + j * HIDDEN, mask, STREAMS)
            else:  # written out, n² products are too much code
                for j in range(STREAMS):
                    weights = weights_of(h_res + rows * SQUARE + j, STREAMS, real, STREAMS)
                    write_back(weights, grads, x_tile + j * HIDDEN, mask, STREAMS)
        if grad_y is not None:
            if not KEPT:
                to_y = weights_of(h_post + rows * STREAMS, 1, real, STREAMS)
            write_back(to_y, grads, grad_y + narrow + d[None, :], mask, STREAMS)

    for i in tl.static_range(ROWS):
        there = real
        if ROWS != STREAMS:
            there = real_if(first + i < STREAMS, rows, tokens)
        if grad_h_res is not None:
            for j in tl.static_range(STREAMS):
                total = tl.sum(to_res[i * STREAMS + j], axis=1)
                tl.store(grad_h_res + rows * SQUARE + ((first + i) * STREAMS + j), total, mask=there)
        if grad_h_post is not None:
            tl.store(grad_h_post + rows * STREAMS + (first + i), tl.sum(to_post[i], axis=1), mask=there)
