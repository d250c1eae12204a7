"""The device code of ``mhc_post``'s gradient."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
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
    STREAMS: tl.constexpr,
    PADDED: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes all gradients of one token, block after block of its columns."""
    token = tl.program_id(0).to(tl.int64)
    i, lanes = tl.arange(0, PADDED), tl.arange(0, BLOCK_HIDDEN)
    real = i < STREAMS
    to_written = tl.load(h_post + token * STREAMS + i, mask=real, other=0.0)
    to_post = tl.zeros([PADDED], tl.float32)
    to_res = tl.zeros([PADDED, PADDED], tl.float32)
    for first in range(0, HIDDEN, BLOCK_HIDDEN):
        d = first + lanes
        there = d < HIDDEN
        places = (token * STREAMS + i)[:, None] * HIDDEN + d[None, :]
        grads = tl.load(grad_out + places, mask=real[:, None] & there[None, :], other=0.0).to(tl.float32)
        written = tl.load(y + token * HIDDEN + d, mask=there, other=0.0).to(tl.float32)
        to_post += tl.sum(grads * written[None, :], axis=1)
        grad_written = tl.sum(grads * to_written[:, None], axis=0)
        tl.store(grad_y + token * HIDDEN + d, grad_written.to(grad_y.dtype.element_ty), mask=there)
        for j in range(STREAMS):
            row = (token * STREAMS + j) * HIDDEN + d
            stream = tl.load(x + row, mask=there, other=0.0).to(tl.float32)
            sums = tl.sum(grads * stream[None, :], axis=1)
            to_res += tl.where((i == j)[None, :], sums[:, None], 0.0)
            weights = tl.load(h_res + (token * STREAMS + i) * STREAMS + j, mask=real, other=0.0)
            grad_stream = tl.sum(grads * weights[:, None], axis=0)
            tl.store(grad_x + row, grad_stream.to(grad_x.dtype.element_ty), mask=there)
    tl.store(grad_h_post + token * STREAMS + i, to_post, mask=real)
    entries = (token * STREAMS + i)[:, None] * STREAMS + i[None, :]
    tl.store(grad_h_res + entries, to_res, mask=real[:, None] & real[None, :])
