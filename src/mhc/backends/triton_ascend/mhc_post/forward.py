"""The device code of ``mhc_post``."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mhc_post_kernel(
    x,
    y,
    h_post,
    h_res,
    out,
    STREAMS: tl.constexpr,
    PADDED: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes a part of one token's columns, for all streams at once."""
    token = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    i = tl.arange(0, PADDED)
    there, real = d < HIDDEN, i < STREAMS
    written = tl.load(y + token * HIDDEN + d, mask=there, other=0.0).to(tl.float32)
    total = tl.load(h_post + token * STREAMS + i, mask=real, other=0.0)[:, None] * written[None, :]
    for j in range(STREAMS):
        weights = tl.load(h_res + (token * STREAMS + i) * STREAMS + j, mask=real, other=0.0)
        stream = tl.load(x + (token * STREAMS + j) * HIDDEN + d, mask=there, other=0.0).to(tl.float32)
        total += weights[:, None] * stream[None, :]
    places = (token * STREAMS + i)[:, None] * HIDDEN + d[None, :]
    tl.store(out + places, total.to(out.dtype.element_ty), mask=real[:, None] & there[None, :])
