"""The device code of ``sinkhorn``'s gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.sinkhorn.forward import (
    after,
    below_largest,
    column_softmax,
    first_matrix,
    iterate,
    matrices,
    quotients,
    unscaled,
)


@triton.jit
def back_over(
    first,
    products,
    before,
    is_last,
    COUNT: tl.constexpr,
    STREAMS: tl.constexpr,
    PADDED: tl.constexpr,
    EPS: tl.constexpr,
):
    """Return gradient times entry before ``COUNT`` iterations, which follow ``before`` others after the first matrix.

    ``products`` are gradient times entry behind the iterations, or the gradient alone where they are the last ones. A
    gradient alone grows without bound where an entry is next to nothing, and times its entry it does not.

    The iterations scale rows and columns of a matrix. Each division by sums takes away the sum of the products, in
    proportion to the entries: no step divides. The scales of all steps are kept, in registers. A line's loss comes
    before the scales in these products, as the compiler would keep what it has computed on the way there.
    """
    matrix = after(first, before, STREAMS, PADDED, EPS)
    scales_of_rows, scales_of_columns = unscaled(matrix)
    by_rows, by_columns = unscaled(matrix)
    rows = (scales_of_rows,)
    columns = (scales_of_columns,)
    for step in tl.static_range(COUNT):
        scales_of_rows, scales_of_columns, by_rows, by_columns = iterate(
            matrix, rows[step], columns[step], by_rows, by_columns, STREAMS, PADDED, EPS
        )
        rows = rows + (scales_of_rows,)
        columns = columns + (scales_of_columns,)
    products = tl.where(is_last, products * (matrix * rows[COUNT] * columns[COUNT]), products)
    for back in tl.static_range(COUNT):
        lost = tl.sum(products, axis=2, keep_dims=True) * rows[COUNT - back]
        products = products - lost * matrix * columns[COUNT - back]
        lost = tl.sum(products, axis=1, keep_dims=True) * columns[COUNT - back]
        products = products - lost * matrix * rows[COUNT - back - 1]
    return products


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
    FORM: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    KEPT: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` matrices, on a GPU in one warp.

    It goes back over ``KEPT`` iterations at a time, and over the rest that is left of them last. Each time it runs the
    iterations before them again.
    """
    LATER: tl.constexpr = ITERATIONS - 1
    REST: tl.constexpr = LATER % KEPT
    places, inside, real = matrices(tokens, STREAMS, PADDED, BLOCK_TOKENS)
    below = below_largest(tl.load(logits + places, mask=real, other=0.0))
    columns, column_divisors = column_softmax(below, inside, STREAMS, PADDED)
    first, divisors = first_matrix(below, columns, column_divisors, inside, STREAMS, PADDED, FORM, EPS)
    grad = tl.where(inside, tl.load(grad_matrix + places, mask=real, other=0.0), 0.0)
    products = grad * first if LATER == 0 else grad
    for done in range(KEPT, LATER + 1, KEPT):
        products = back_over(first, products, LATER - done, done == KEPT, KEPT, STREAMS, PADDED, EPS)
    if REST > 0:
        products = back_over(first, products, 0, LATER < KEPT, REST, STREAMS, PADDED, EPS)
    lost = tl.sum(products, axis=2, keep_dims=True)
    if FORM == "deepseek":  # eps makes every entry of the first matrix large enough to divide by
        grad = quotients(products, tl.where(first > 0.0, first, 1.0)) - lost
        grad = quotients(grad, divisors)
        result = columns * (grad - tl.sum(grad * columns, axis=1, keep_dims=True))
    else:
        products = products - lost * first
        result = products - columns * tl.sum(products, axis=1, keep_dims=True)
    tl.store(grad_logits + places, result, mask=real & inside)
