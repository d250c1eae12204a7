"""The device code of ``sinkhorn``'s gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.sinkhorn.forward import exponentials, iterate, matrices, quotients, totals


@triton.jit(do_not_specialize=["tokens"])
def sinkhorn_backward_kernel(
    logits,
    grad_matrix,
    grad_logits,
    tokens,
    STREAMS: tl.constexpr,
    PADDED: tl.constexpr,
    ITERATIONS: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    KEPT: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` matrices, on a GPU in one warp.

    Of a division M' = M / s the way back needs M' and s: the gradient of M is (g - Σ g · M') / s. Both are kept of
    ``KEPT`` iterations, in registers; before those, the iterations are run again from the start. To get the M before
    as M' · s would take fewer registers, and round once more at every step.
    """
    places, inside, real = matrices(tokens, STREAMS, PADDED, BLOCK_TOKENS)
    first = exponentials(tl.load(logits + places, mask=real, other=0.0), inside)
    grad = tl.where(inside, tl.load(grad_matrix + places, mask=real, other=0.0), 0.0)
    for done in range(KEPT, ITERATIONS + 1, KEPT):
        matrix = first
        for _ in range(ITERATIONS - done):
            matrix = iterate(matrix, STREAMS, PADDED, EPS)
        quotient = ()
        sums = ()
        for step in tl.static_range(2 * KEPT):
            divisors = totals(matrix, 2 - step % 2, STREAMS, PADDED, EPS)
            matrix = quotients(matrix, divisors)
            quotient = quotient + (matrix,)
            sums = sums + (divisors,)
        for back in tl.static_range(2 * KEPT):
            # The last of a pair was a division by columns.
            along = tl.sum(grad * quotient[2 * KEPT - 1 - back], axis=1 + back % 2, keep_dims=True)
            grad = quotients(grad - along, sums[2 * KEPT - 1 - back])
    tl.store(grad_logits + places, grad * first, mask=real & inside)
