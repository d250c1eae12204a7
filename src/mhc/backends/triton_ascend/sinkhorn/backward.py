"""The device code of ``sinkhorn``'s gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton_ascend.sinkhorn.forward import first_matrix, iterate, places_of, sums_along


@triton.jit
def sinkhorn_backward_kernel(
    logits,
    grad_matrix,
    grad_logits,
    tokens,
    STREAMS: tl.constexpr,
    PADDED: tl.constexpr,
    ITERATIONS: tl.constexpr,
    EPS: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
):
    """One program goes back over the iterations of ``BLOCK_TOKENS`` matrices, and keeps none of them.

    Triton 3.2 has no tuples to keep them in. The way to each iteration is computed again from the first matrix.
    """
    places, inside, real = places_of(tokens, STREAMS, PADDED, BLOCK_TOKENS)
    begin = tl.load(logits + places, mask=real, other=0.0)
    first, columns, divisors = first_matrix(begin, inside, STREAMS, PADDED, FORM, EPS)
    grad = tl.load(grad_matrix + places, mask=real, other=0.0)
    for done in range(1, ITERATIONS):
        before = first
        for _ in range(ITERATIONS - 1 - done):
            before = iterate(before, STREAMS, PADDED, EPS)
        column_sums = sums_along(before, 1, STREAMS, PADDED, EPS)
        half = before / column_sums
        row_sums = sums_along(half, 2, STREAMS, PADDED, EPS)
        after = half / row_sums
        grad = (grad - tl.sum(grad * after, axis=2, keep_dims=True)) / row_sums
        grad = (grad - tl.sum(grad * half, axis=1, keep_dims=True)) / column_sums
    grad = grad - tl.sum(grad * first, axis=2, keep_dims=True)
    if FORM == "deepseek":
        grad = grad / divisors
        result = columns * (grad - tl.sum(grad * columns, axis=1, keep_dims=True))
    else:
        grad = first * grad
        result = grad - columns * tl.sum(grad, axis=1, keep_dims=True)
    tl.store(grad_logits + places, result, mask=real)
