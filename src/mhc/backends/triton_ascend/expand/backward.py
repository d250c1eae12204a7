"""The device code of ``expand``'s gradient."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def expand_backward_kernel(grad_out, grad_x, STREAMS: tl.constexpr, HIDDEN: tl.constexpr, BLOCK_HIDDEN: tl.constexpr):
    """One program adds up the streams of a part of one token's columns, in fp32."""
    token = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    there = d < HIDDEN
    total = tl.zeros([BLOCK_HIDDEN], tl.float32)
    for i in range(STREAMS):
        total += tl.load(grad_out + (token * STREAMS + i) * HIDDEN + d, mask=there, other=0.0).to(tl.float32)
    tl.store(grad_x + token * HIDDEN + d, total.to(grad_x.dtype.element_ty), mask=there)
