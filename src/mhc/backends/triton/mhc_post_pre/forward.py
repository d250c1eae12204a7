"""The device code of ``mhc_post_pre``: the new streams, and their projection while they are still in registers."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.mhc_post.backward import weights_of
from mhc.backends.triton.mhc_pre.equations import plus, to_tf32


@triton.jit
def mixed(h_post, h_res, row, real, streams, written, STREAMS: tl.constexpr):
    """Return one new stream in fp32, as ``mhc_post`` computes it; ``row`` is its entry of h_post, its row of h_res."""
    total = tl.load(h_post + row, mask=real, other=0.0)[:, None] * written
    weights = weights_of(h_res + row * STREAMS, 1, real, STREAMS)
    for j in tl.static_range(STREAMS):
        total += weights[j][:, None] * streams[j]
    return total


@triton.jit
def projected(
    total,
    operands,
    weights,
    d,
    inside,
    HIDDEN: tl.constexpr,
    LINE: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    STREAMS: tl.constexpr,
):
    """Return the running total with the products of one tile of every stream and its columns ``d`` of the weights."""
    mixes = tl.arange(0, PADDED)[None, :]
    column = inside[:, None]
    for i in tl.static_range(STREAMS):
        place = weights + mixes * LINE + (i * HIDDEN + d)[:, None]
        if FORM == "bf16x3":
            # The smallest part first, as it would be lost beside the others' sum.
            product = tl.dot(operands[i], tl.load(place + 2 * PADDED * LINE, mask=column, other=0.0))
            product = tl.dot(operands[i], tl.load(place + PADDED * LINE, mask=column, other=0.0), product)
            product = tl.dot(operands[i], tl.load(place, mask=column, other=0.0), product)
        else:
            product = tl.dot(operands[i], tl.load(place, mask=column, other=0.0), input_precision=FORM)
        total = plus(total, product)
    return total


@triton.jit(do_not_specialize=["tokens"])
def post_project_kernel(
    x,
    y,
    h_post,
    h_res,
    weights,
    out,
    sums,
    squares,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    LINE: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    PARTS: tl.constexpr,
    PART: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program computes a tile of tokens over one part of the columns of every stream, and all mixes.

    ``weights`` are those of ``mhc_pre`` in the form ``FORM``. ``sums`` is [PARTS, tokens, PADDED] and ``squares``
    [PARTS, tokens]: partial sums of the projection and of the squares, which ``finish_kernel`` adds up. A part may be
    empty, and its sums are zero.
    """
    part = tl.program_id(0) % PARTS
    OPERAND: tl.constexpr = tl.bfloat16 if FORM == "bf16x3" else tl.float32

    rows = (tl.program_id(0) // PARTS).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    mixes = tl.arange(0, PADDED)
    first = part * PART
    wide = rows[:, None] * (STREAMS * HIDDEN)
    total = tl.zeros([BLOCK_TOKENS, PADDED], dtype=tl.float32)
    square = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    operands = ()
    for _ in tl.static_range(STREAMS):
        operands = operands + (tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=OPERAND),)
    for start in tl.range(0, PART, BLOCK_HIDDEN, num_stages=STAGES):
        # The products are those of the tile before this one. An operand that comes from the turn before goes to the
        # tensor cores through shared memory. One of this turn would be computed twice: in the layout of the products
        # too.
        before = first + start - BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
        total = projected(
            total, operands, weights, before, (before >= first) & (before < HIDDEN), HIDDEN, LINE, PADDED, FORM, STREAMS
        )
        d = first + start + tl.arange(0, BLOCK_HIDDEN)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        streams = ()
        for j in tl.static_range(STREAMS):
            value = tl.load(x + wide + (j * HIDDEN + d)[None, :], mask=mask, other=0.0)
            streams = streams + (value.to(tl.float32),)
        written = tl.load(y + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0).to(tl.float32)
        made = ()
        for i in tl.static_range(STREAMS):
            # The cast rounds to nearest even. From here on the stream is what the next launch reads.
            value = mixed(h_post, h_res, rows * STREAMS + i, real, streams, written, STREAMS).to(out.dtype.element_ty)
            tl.store(out + wide + (i * HIDDEN + d)[None, :], value, mask=mask)
            v = value.to(tl.float32)
            square += v * v
            if FORM == "tf32" and out.dtype.element_ty == tl.float32:
                v = to_tf32(v)
            made = made + (v.to(OPERAND),)
        operands = made
    last = first + (PART - BLOCK_HIDDEN) + tl.arange(0, BLOCK_HIDDEN)
    total = projected(total, operands, weights, last, last < HIDDEN, HIDDEN, LINE, PADDED, FORM, STREAMS)
    long = tl.zeros([], dtype=tl.int64) + tokens
    into = sums + (part * long + rows)[:, None] * PADDED + mixes[None, :]
    tl.store(into, total, mask=real[:, None])
    tl.store(squares + part * long + rows, tl.sum(square, axis=1), mask=real)
