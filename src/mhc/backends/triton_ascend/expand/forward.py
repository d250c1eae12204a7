"""The device code of ``expand``."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def expand_kernel(x, out, STREAMS: tl.constexpr, HIDDEN: tl.constexpr, BLOCK_HIDDEN: tl.constexpr):
    """One program copies a part of one token's columns to all streams."""
    token = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    there = d < HIDDEN
    values = tl.load(x + token * HIDDEN + d, mask=there, other=0.0)
    for i in range(STREAMS):
        tl.store(out + (token * STREAMS + i) * HIDDEN + d, values, mask=there)
