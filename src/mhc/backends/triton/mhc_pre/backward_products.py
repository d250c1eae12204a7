"""The device code of the gradients of x, phi and gamma with ``tl.dot``: for any number of mixes, and for tensor cores.

The two products of the backward are launches of their own: :func:`grad_x_kernel` by tokens and columns, and
:func:`grad_phi_kernel`, which gives the chunks that :func:`~mhc.backends.triton.mhc_pre.backward_sums.sums_kernel` adds
up. Where all mixes are one group, :func:`grad_x_phi_kernel` has both and reads x once. For the coefficients see
:mod:`~mhc.backends.triton.mhc_pre.backward`, for ``FORM`` and the weights
:mod:`~mhc.backends.triton.mhc_pre.forward_products`. dx in bf16 needs 16 bits of the coefficients and of the weights,
the sums over tokens all 24.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.mhc_pre.equations import plus, to_tf32


@triton.jit(do_not_specialize=["tokens"])
def grad_x_kernel(
    x,
    weights,
    grad_h_in,
    coefficients,
    scales,
    added,
    grad_x,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    LINE: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes a tile of tokens by columns of one stream.

    The streams of the same columns are neighbours in the grid, so that grad_h_in comes from the cache; it is None where
    nothing was read. ``added`` is None or a gradient to add.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN
    TILES: tl.constexpr = STREAMS * ((HIDDEN + BLOCK_HIDDEN - 1) // BLOCK_HIDDEN)

    rows = (tl.program_id(0) // TILES).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    stream = tl.program_id(0) % STREAMS
    d = (tl.program_id(0) % TILES // STREAMS) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    inside = d < HIDDEN
    k = stream * HIDDEN + d
    mask = real[:, None] & inside[None, :]
    long = tl.zeros([], dtype=tl.int64) + tokens
    total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for first in range(0, PADDED, BLOCK_MIXES):
        mixes = first + tl.arange(0, BLOCK_MIXES)
        c_place = coefficients + rows[:, None] * PADDED + mixes[None, :]
        c = tl.load(c_place, mask=real[:, None], other=0.0)
        place = weights + mixes[:, None] * LINE + k[None, :]
        high = tl.load(place, mask=inside[None, :], other=0.0)
        if FORM == "bf16x3":
            product = tl.dot(c, tl.load(place + PADDED * LINE, mask=inside[None, :], other=0.0))
            product = tl.dot(tl.load(c_place + long * PADDED, mask=real[:, None], other=0.0), high, product)
            product = tl.dot(c, high, product)
        else:
            product = tl.dot(c, high, input_precision=FORM)
        total = plus(total, product)
    slope = tl.load(scales + STREAMS * long + rows, mask=real, other=0.0)[:, None]
    place = rows[:, None] * WIDTH + k[None, :]
    total += slope * tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
    if grad_h_in is not None:
        h_pre = tl.load(scales + stream * long + rows, mask=real, other=0.0)[:, None]
        grad = tl.load(grad_h_in + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0)
        total += h_pre * grad.to(tl.float32)
    if added is not None:
        total += tl.load(added + place, mask=mask, other=0.0).to(tl.float32)
    # The cast rounds to nearest even.
    tl.store(grad_x + place, total.to(grad_x.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["tokens", "chunk"])
def grad_phi_kernel(
    x,
    coefficients,
    chunks,
    tokens,
    chunk,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program takes ``chunk`` tokens through columns of one stream and a group of mixes.

    ``chunks`` is [chunks, MIXES, width].
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN
    GROUPS: tl.constexpr = PADDED // BLOCK_MIXES

    mixes = (tl.program_id(0) % GROUPS) * BLOCK_MIXES + tl.arange(0, BLOCK_MIXES)
    k = (tl.program_id(0) // GROUPS) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    inside = k < WIDTH
    first = tl.program_id(1).to(tl.int64) * chunk
    long = tl.zeros([], dtype=tl.int64) + tokens
    last = tl.minimum(first + chunk, long)
    total = tl.zeros([BLOCK_HIDDEN, BLOCK_MIXES], dtype=tl.float32)
    for start in tl.range(0, chunk, BLOCK_TOKENS, num_stages=STAGES):
        rows = first + start + tl.arange(0, BLOCK_TOKENS)
        real = rows < last
        mask = real[:, None] & inside[None, :]
        value = tl.load(x + rows[:, None] * WIDTH + k[None, :], mask=mask, other=0.0)
        place = coefficients + rows[:, None] * PADDED + mixes[None, :]
        c = tl.load(place, mask=real[:, None], other=0.0)
        if FORM == "bf16x3":
            columns = tl.trans(value)
            product = tl.dot(columns, tl.load(place + 2 * long * PADDED, mask=real[:, None], other=0.0))
            product = tl.dot(columns, tl.load(place + long * PADDED, mask=real[:, None], other=0.0), product)
            product = tl.dot(columns, c, product)
        else:
            v = value.to(tl.float32)
            if FORM == "tf32" and x.dtype.element_ty == tl.float32:
                v = to_tf32(v)
            product = tl.dot(tl.trans(v), c, input_precision=FORM)
        total = plus(total, product)
    into = chunks + tl.program_id(1).to(tl.int64) * (MIXES * WIDTH)
    mask = inside[:, None] & (mixes < MIXES)[None, :]
    tl.store(into + mixes[None, :] * WIDTH + k[:, None], total, mask=mask)


@triton.jit(do_not_specialize=["tokens", "chunk"])
def grad_x_phi_kernel(
    x,
    weights,
    grad_h_in,
    coefficients,
    scales,
    added,
    grad_x,
    chunks,
    tokens,
    chunk,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    LINE: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    TOGETHER: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program takes ``chunk`` tokens through the same columns of ``TOGETHER`` streams, and all mixes.

    It keeps the weights of its columns, and the sums over tokens. ``chunks`` is [chunks, MIXES, width], or None where
    neither phi's nor gamma's gradient is asked for; grad_x is None where it is not, and ``added`` is None or a gradient
    to add to it. The last tokens come first: those are in the cache when the pass before this one ends.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN
    GROUPS: tl.constexpr = STREAMS // TOGETHER

    stream = (tl.program_id(0) % GROUPS) * TOGETHER
    d = (tl.program_id(0) // GROUPS) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    inside = d < HIDDEN
    mixes = tl.arange(0, PADDED)
    high = ()
    middle = ()
    sums = ()
    for s in tl.static_range(TOGETHER):
        if grad_x is not None:
            column = weights + mixes[:, None] * LINE + ((stream + s) * HIDDEN + d)[None, :]
            high = high + (tl.load(column, mask=inside[None, :], other=0.0),)
            if FORM == "bf16x3":
                middle = middle + (tl.load(column + PADDED * LINE, mask=inside[None, :], other=0.0),)
        if chunks is not None:
            sums = sums + (tl.zeros([BLOCK_HIDDEN, PADDED], dtype=tl.float32),)

    long = tl.zeros([], dtype=tl.int64) + tokens
    part = tl.num_programs(1) - 1 - tl.program_id(1)
    first = part.to(tl.int64) * chunk
    last = tl.minimum(first + chunk, long)
    for done in tl.range(0, chunk, BLOCK_TOKENS, num_stages=STAGES):
        rows = first + (chunk - BLOCK_TOKENS - done) + tl.arange(0, BLOCK_TOKENS)
        real = rows < last
        mask = real[:, None] & inside[None, :]
        c_place = coefficients + rows[:, None] * PADDED + mixes[None, :]
        c = tl.load(c_place, mask=real[:, None], other=0.0)
        if FORM == "bf16x3":
            c_middle = tl.load(c_place + long * PADDED, mask=real[:, None], other=0.0)
            if chunks is not None:
                c_low = tl.load(c_place + 2 * long * PADDED, mask=real[:, None], other=0.0)
        if grad_x is not None:
            slope = tl.load(scales + STREAMS * long + rows, mask=real, other=0.0)[:, None]
            if grad_h_in is not None:
                grad = tl.load(grad_h_in + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0).to(tl.float32)
        more = ()
        for s in tl.static_range(TOGETHER):
            place = rows[:, None] * WIDTH + ((stream + s) * HIDDEN + d)[None, :]
            value = tl.load(x + place, mask=mask, other=0.0)
            if grad_x is not None:
                if FORM == "bf16x3":
                    total = tl.dot(c, middle[s])
                    total = tl.dot(c_middle, high[s], total)
                    total = tl.dot(c, high[s], total)
                else:
                    total = tl.dot(c, high[s], input_precision=FORM)
                # What is fused is written out, so that the rest of the program has no part in it.
                total = tl.fma(slope, value.to(tl.float32), total)
                if grad_h_in is not None:
                    h_pre = tl.load(scales + (stream + s) * long + rows, mask=real, other=0.0)[:, None]
                    total = tl.fma(h_pre, grad, total)
                if added is not None:
                    total += tl.load(added + place, mask=mask, other=0.0).to(tl.float32)
                # The cast rounds to nearest even.
                tl.store(grad_x + place, total.to(grad_x.dtype.element_ty), mask=mask)
            if chunks is not None:
                if FORM == "bf16x3":
                    columns = tl.trans(value)
                    product = tl.dot(columns, c_low)
                    product = tl.dot(columns, c_middle, product)
                    product = tl.dot(columns, c, product)
                else:
                    product = tl.dot(tl.trans(value.to(tl.float32)), c, input_precision=FORM)
                more = more + (plus(sums[s], product),)
        if chunks is not None:
            sums = more

    if chunks is not None:
        into = chunks + part.to(tl.int64) * (MIXES * WIDTH) + mixes[None, :] * WIDTH
        for s in tl.static_range(TOGETHER):
            mask = inside[:, None] & (mixes < MIXES)[None, :]
            tl.store(into + ((stream + s) * HIDDEN + d)[:, None], sums[s], mask=mask)
