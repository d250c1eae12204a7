"""The device code of a write that is projected at once."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from mhc.backends.triton.mhc_pre.forward_overlapped import prefetch, written


@triton.jit(do_not_specialize=["tokens"])
def write_and_project_kernel(
    x,
    y,
    h_post,
    h_res,
    phi,
    gamma,
    out,
    sums,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    STRIPS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    BESIDE: tl.constexpr,
):
    """One program writes some columns of all streams, of tokens in steps of the grid, and projects what it wrote.

    ``sums`` is [tokens, STRIPS, PADDED]. Every row of a tile has the columns of x and y, so that no value changes its
    thread between the write and the product.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN

    strip = tl.program_id(0)
    d = strip * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    mixes = tl.arange(0, PADDED)
    if BESIDE:
        for stream in tl.static_range(STREAMS):
            prefetch(phi + mixes * WIDTH + stream * HIDDEN, mixes < MIXES, strip * BLOCK_HIDDEN, HIDDEN, BLOCK_HIDDEN)
        gdc_wait()
        gdc_launch_dependents()
    real = (d < HIDDEN)[None, :]
    weights = ()
    for stream in tl.static_range(STREAMS):
        place = stream * HIDDEN + d
        weight = tl.load(phi + mixes[:, None] * WIDTH + place[None, :], mask=(mixes < MIXES)[:, None] & real, other=0.0)
        if gamma is not None:
            weight *= tl.load(gamma + place, mask=d < HIDDEN, other=0.0)[None, :]
        weights = weights + (weight,)
    columns = d[None, :] + tl.zeros_like(mixes)[:, None]
    mask = columns < HIDDEN
    for token in range(tl.program_id(1), tokens, tl.num_programs(1)):
        row = token + tl.zeros([], dtype=tl.int64)
        values = ()
        for stream in tl.static_range(STREAMS):
            values = values + (tl.load(x + row * WIDTH + stream * HIDDEN + columns, mask=mask, other=0.0),)
        layer = tl.load(y + row * HIDDEN + columns, mask=mask, other=0.0)
        values = written(values, layer, h_post, h_res, row, STREAMS)
        total = tl.zeros([PADDED, BLOCK_HIDDEN], dtype=tl.float32)
        for stream in tl.static_range(STREAMS):
            total += weights[stream] * values[stream].to(tl.float32)
            into = out + row * WIDTH + stream * HIDDEN + columns
            tl.store(into, values[stream], mask=mask & (mixes == 0)[:, None])
        tl.store(sums + (row * STRIPS + strip) * PADDED + mixes, tl.sum(total, axis=1), mask=mixes < MIXES)
