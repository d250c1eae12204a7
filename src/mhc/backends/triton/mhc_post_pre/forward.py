"""The device code of ``mhc_post_pre``: the new streams, and their projection while they are in the cache."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.mhc_post.forward import mix
from mhc.backends.triton.mhc_pre.equations import plus


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
    CHUNK: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program computes a tile of tokens over one part of the columns of every stream, and all mixes.

    It writes ``CHUNK`` columns of every stream, ``ROWS`` tokens at a time, as ``mhc_post`` does, and then reads them
    from the cache, as ``mhc_pre`` does. ``weights`` are those of ``mhc_pre`` in the form ``FORM``. ``sums`` is [PARTS,
    tokens, PADDED] and ``squares`` [PARTS, tokens]: partial sums of the projection and of the squares, which
    ``finish_kernel`` adds up. A part may be empty, and its sums are zero.
    """
    BLOCKS: tl.constexpr = CHUNK // BLOCK_HIDDEN
    WIDTH: tl.constexpr = STREAMS * HIDDEN

    part = tl.program_id(0) % PARTS
    block = (tl.program_id(0) // PARTS).to(tl.int64) * BLOCK_TOKENS
    rows = block + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    mixes = tl.arange(0, PADDED)
    total = tl.zeros([BLOCK_TOKENS, PADDED], dtype=tl.float32)
    square = tl.zeros([BLOCK_TOKENS], dtype=tl.float32)
    for chunk in range(part * PART, part * PART + PART, CHUNK):
        d = chunk + tl.arange(0, CHUNK)
        for row in range(0, BLOCK_TOKENS, ROWS):
            some = block + row + tl.arange(0, ROWS)
            there = some < tokens
            mask = there[:, None] & (d < HIDDEN)[None, :]
            place = some[:, None] * WIDTH + d[None, :]
            streams = ()
            for j in tl.static_range(STREAMS):
                streams = streams + (tl.load(x + place + j * HIDDEN, mask=mask, other=0.0).to(tl.float32),)
            written = tl.load(y + some[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0).to(tl.float32)
            for i in tl.static_range(STREAMS):
                mix(h_post, h_res, some * STREAMS + i, there, streams, written, out + place + i * HIDDEN, mask, STREAMS)
        # What other threads of this program have written is read from here on.
        tl.debug_barrier()
        for step in tl.range(0, STREAMS * BLOCKS, num_stages=STAGES):
            column = chunk + (step % BLOCKS) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
            inside = column < HIDDEN
            k = (step // BLOCKS) * HIDDEN + column
            mask = real[:, None] & inside[None, :]
            value = tl.load(out + rows[:, None] * WIDTH + k[None, :], mask=mask, other=0.0)
            place = weights + mixes[None, :] * LINE + k[:, None]
            v = value.to(tl.float32)
            if FORM == "bf16x3":
                # The smallest part first, as it would be lost beside the others' sum.
                product = tl.dot(value, tl.load(place + 2 * PADDED * LINE, mask=inside[:, None], other=0.0))
                product = tl.dot(value, tl.load(place + PADDED * LINE, mask=inside[:, None], other=0.0), product)
                product = tl.dot(value, tl.load(place, mask=inside[:, None], other=0.0), product)
            else:
                product = tl.dot(v, tl.load(place, mask=inside[:, None], other=0.0), input_precision=FORM)
            total = plus(total, product)
            square += tl.sum(v * v, axis=1)
    long = tl.zeros([], dtype=tl.int64) + tokens
    into = sums + (part * long + rows)[:, None] * PADDED + mixes[None, :]
    tl.store(into, total, mask=real[:, None])
    tl.store(squares + part * long + rows, square, mask=real)
