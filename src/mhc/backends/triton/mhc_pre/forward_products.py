"""The device code of ``mhc_pre`` and ``mhc_head`` with ``tl.dot``: for any number of mixes, and for tensor cores.

1. :func:`weights_kernel` multiplies phi by gamma, and rounds or splits the products as ``FORM`` says;
2. :func:`project_kernel`, by tokens, groups of mixes and parts of the width: partial sums of the projection;
3. :func:`finish_kernel` adds the parts up: m, r, h_post, h_res;
4. :func:`layer_input_kernel` reads x again for h_in.

``FORM`` is how a product of x and the weights is computed:

``ieee``
    fp32 times fp32.
``tf32``
    Both rounded to TF32, as tensor cores of NVIDIA multiply them; x in 16 bits is exact.
``bf16x3``
    x in bf16 times the three bf16 numbers whose sum is the weight, all 24 bits of it: as exact as ``ieee``.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

from mhc.backends.triton.mhc_pre.equations import gates, halves, plus, reciprocal_rms, sigmoid, to_tf32


@triton.jit
def make_weights(
    phi,
    gamma,
    weights,
    row,
    column,
    WIDTH: tl.constexpr,
    LINE: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store one tile of mixes by columns of the weights, [parts, PADDED, LINE], zero in the padding."""
    mix = row * BLOCK_MIXES + tl.arange(0, BLOCK_MIXES)[:, None]
    k = column * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (k < WIDTH) & (mix < MIXES)
    value = tl.load(phi + mix * WIDTH + k, mask=inside, other=0.0)
    if gamma is not None:
        value *= tl.load(gamma + k, mask=k < WIDTH, other=0.0)
    place = weights + mix * LINE + k
    real = (k < LINE) & (mix < PADDED)
    if FORM == "bf16x3":
        high, middle, rest = halves(value)
        tl.store(place, high, mask=real)
        tl.store(place + PADDED * LINE, middle, mask=real)
        tl.store(place + 2 * PADDED * LINE, rest.to(tl.bfloat16), mask=real)
    elif FORM == "tf32":
        tl.store(place, to_tf32(value), mask=real)
    else:
        tl.store(place, value, mask=real)


@triton.jit(do_not_specialize=["count"])
def weights_kernel(
    phi,
    gamma,
    weights,
    counters,
    count,
    WIDTH: tl.constexpr,
    LINE: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program makes one tile of the weights; ``counters`` are ``count`` integers to set to zero, or None."""
    if counters is not None:
        if FORM == "bf16x3":
            gdc_launch_dependents()  # the next launch begins while this one runs, and waits for its end by itself
        every = tl.num_programs(0) * BLOCK
        for start in range(tl.program_id(0) * BLOCK, count, every):
            place = start + tl.arange(0, BLOCK)
            tl.store(counters + place, tl.zeros([BLOCK], dtype=tl.int32), mask=place < count)
    row, column = tl.program_id(1), tl.program_id(0)
    make_weights(phi, gamma, weights, row, column, WIDTH, LINE, MIXES, PADDED, FORM, BLOCK_MIXES, BLOCK)


@triton.jit(do_not_specialize=["tokens"])
def project_kernel(
    x,
    weights,
    sums,
    squares,
    tokens,
    WIDTH: tl.constexpr,
    LINE: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program computes a tile of tokens by mixes over one part of the width.

    ``sums`` is [PARTS, tokens, PADDED] and ``squares`` [PARTS, tokens].
    """
    PART: tl.constexpr = LINE // PARTS

    part = tl.program_id(0) % PARTS
    rows = (tl.program_id(0) // PARTS).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    mixes = tl.program_id(1) * BLOCK_MIXES + tl.arange(0, BLOCK_MIXES)
    first = part * PART
    total = tl.zeros([BLOCK_TOKENS, BLOCK_MIXES], dtype=tl.float32)
    square = tl.zeros([BLOCK_TOKENS, BLOCK_WIDTH], dtype=tl.float32)
    for start in tl.range(0, PART, BLOCK_WIDTH, num_stages=STAGES):
        k = first + start + tl.arange(0, BLOCK_WIDTH)
        mask = real[:, None] & (k < WIDTH)[None, :]
        value = tl.load(x + rows[:, None] * WIDTH + k[None, :], mask=mask, other=0.0)
        place = weights + mixes[None, :] * LINE + k[:, None]
        v = value.to(tl.float32)
        if FORM == "bf16x3":
            # The smallest part first: added to the others' sum it would be lost.
            product = tl.dot(value, tl.load(place + 2 * PADDED * LINE))
            product = tl.dot(value, tl.load(place + PADDED * LINE), product)
            product = tl.dot(value, tl.load(place), product)
        elif FORM == "tf32":
            operand = v
            if x.dtype.element_ty == tl.float32:
                operand = to_tf32(v)
            product = tl.dot(operand, tl.load(place), input_precision="tf32")
        else:
            product = tl.dot(v, tl.load(place), input_precision="ieee")
        total = plus(total, product)
        square += v * v
    long = tl.zeros([], dtype=tl.int64) + tokens
    into = sums + (part * long + rows)[:, None] * PADDED + mixes[None, :]
    tl.store(into, total, mask=real[:, None])
    if tl.program_id(1) == 0:
        tl.store(squares + part * long + rows, tl.sum(square, axis=1), mask=real)


@triton.jit(do_not_specialize=["tokens"])
def finish_kernel(
    sums,
    squares,
    alpha,
    bias,
    h_pre,
    h_post,
    h_res,
    m,
    r,
    tokens,
    STREAMS: tl.constexpr,
    WIDTH: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    NORM_EPS: tl.constexpr,
    PRE_EPS: tl.constexpr,
    POST_SCALE: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
):
    """One program computes a tile of tokens by mixes; h_pre, h_post and h_res are None where the operator has none."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    mixes = tl.program_id(1) * BLOCK_MIXES + tl.arange(0, BLOCK_MIXES)
    mix = mixes[None, :]
    row = rows[:, None]
    mask = real[:, None] & (mix < MIXES)
    long = tl.zeros([], dtype=tl.int64) + tokens
    total = tl.zeros([BLOCK_TOKENS, BLOCK_MIXES], dtype=tl.float32)
    square = tl.zeros([BLOCK_TOKENS], dtype=tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(sums + (part * long + row) * PADDED + mix, mask=mask, other=0.0)
        square += tl.load(squares + part * long + rows, mask=real, other=0.0)
    reciprocal = reciprocal_rms(square, WIDTH, NORM_EPS)
    projection = total * reciprocal[:, None]
    if tl.program_id(1) == 0:
        tl.store(r + rows, reciprocal, mask=real)
    tl.store(m + row * MIXES + mix, projection, mask=mask)
    if MIXES > STREAMS:
        gate = gates(alpha, mixes, STREAMS, MIXES)
        logit = gate[None, :] * projection + tl.load(bias + mixes, mask=mixes < MIXES, other=0.0)[None, :]
        weight = sigmoid(logit)
        if h_pre is not None:
            tl.store(h_pre + row * STREAMS + mix, weight + PRE_EPS, mask=mask & (mix < STREAMS))
        post = mask & (mix >= STREAMS) & (mix < 2 * STREAMS)
        tl.store(h_post + row * STREAMS + (mix - STREAMS), POST_SCALE * weight, mask=post)
        place = h_res + row * (MIXES - 2 * STREAMS) + (mix - 2 * STREAMS)
        tl.store(place, logit, mask=mask & (mix >= 2 * STREAMS))


@triton.jit(do_not_specialize=["tokens"])
def layer_input_kernel(
    x,
    m,
    alpha,
    bias,
    pre,
    h_in,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    PRE_EPS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes a tile of tokens by hidden, with the weights ``pre`` where they are given.

    The last tokens come first: those are in the cache when the pass before this one ends.
    """
    rows = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    d = tl.program_id(1) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    mask = real[:, None] & (d < HIDDEN)[None, :]
    gate = tl.load(alpha)
    total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for stream in range(STREAMS):
        if pre is not None:
            weight = tl.load(pre + rows * STREAMS + stream, mask=real, other=0.0)
        else:
            logit = gate * tl.load(m + rows * MIXES + stream, mask=real, other=0.0) + tl.load(bias + stream)
            weight = sigmoid(logit) + PRE_EPS
        place = x + rows[:, None] * (STREAMS * HIDDEN) + (stream * HIDDEN + d)[None, :]
        value = tl.load(place, mask=mask, other=0.0).to(tl.float32)
        total += weight[:, None] * value
    # The cast rounds to nearest even.
    tl.store(h_in + rows[:, None] * HIDDEN + d[None, :], total.to(h_in.dtype.element_ty), mask=mask)
