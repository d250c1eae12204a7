"""The device code of ``sinkhorn``."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matrices(tokens, STREAMS: tl.constexpr, PADDED: tl.constexpr, BLOCK_TOKENS: tl.constexpr):
    """Return where one program's matrices lie, which of their entries are no padding, and which matrices to store.

    The padding reads the last row and column once more: it changes no maximum and overflows nothing.
    """
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)[:, None, None]
    i = tl.arange(0, PADDED)[None, :, None]
    j = tl.arange(0, PADDED)[None, None, :]
    if STREAMS == PADDED:
        place = i * STREAMS + j
    else:
        place = tl.minimum(i, STREAMS - 1) * STREAMS + tl.minimum(j, STREAMS - 1)
    inside = (i < STREAMS) & (j < STREAMS)
    return rows * (STREAMS * STREAMS) + place, inside, rows < tokens


@triton.jit
def exponential(x, inside):
    """Return exp(x) for x <= 0, 0 for the padding, and NaN for NaN.

    A GPU has only 2**x, and x · log₂e is off by 2**-18 where x is -60: the factor puts back what its rounding lost.
    The hardware may also replace a subnormal 2**x by 0: below 2**-64 it computes 2**(x + 64), and the product with
    2**-64 is subnormal.
    """
    x = tl.where(x < -150.0, -150.0, x)  # exp(-150) is 0 in fp32; and -inf would make inf - inf below
    power = x * 1.4426950216293335  # log₂e in fp32
    lost = tl.fma(x, 1.4426950216293335, -power) + x * 1.9259629911266175e-08  # and what that leaves of it
    small = power < -64.0
    result = tl.exp2(tl.where(small, power + 64.0, power)) * (1.0 + lost * 0.6931471805599453)
    return tl.where(inside, result * tl.where(small, 5.421010862427522e-20, 1.0), 0.0)


@triton.jit
def totals(matrix, AXIS: tl.constexpr, STREAMS: tl.constexpr, PADDED: tl.constexpr, EPS: tl.constexpr):
    """Return the sums along ``AXIS``, to divide by; 1 for the padding, as ``EPS`` may be 0."""
    sums = tl.sum(matrix, axis=AXIS, keep_dims=True) + EPS
    if STREAMS != PADDED:
        lines = tl.arange(0, PADDED)[None, :, None] if AXIS == 2 else tl.arange(0, PADDED)[None, None, :]
        sums = tl.where(lines < STREAMS, sums, 1.0)
    return sums


@triton.jit
def quotients(matrix, sums):
    """Return a quotient for each entry, rounded once but for some whose rounding is all but a tie.

    NVIDIA's correctly rounded division has a branch for rare cases, so divisions wait for each other. Here each line
    has one reciprocal. That alone would round twice, and the gradient, where the entries of a line cancel, would be
    twice as far off: so each quotient is corrected by what is left of its entry. The factor keeps reciprocals of small
    sums finite.
    """
    factors = tl.where(sums < 2.0**-100, 2.0**64, 1.0)
    sums = sums * factors
    reciprocals = 1.0 / sums
    reciprocals = tl.fma(tl.fma(-sums, reciprocals, tl.full(sums.shape, 1.0, tl.float32)), reciprocals, reciprocals)
    matrix = matrix * factors
    sums, reciprocals = tl.broadcast_to(sums, matrix.shape), tl.broadcast_to(reciprocals, matrix.shape)
    quotient = matrix * reciprocals
    return tl.fma(tl.fma(-sums, quotient, matrix), reciprocals, quotient)


@triton.jit
def below_largest(logits):
    """Return the logits minus the largest of their column."""
    return logits - tl.max(logits, axis=1, keep_dims=True)


@triton.jit
def column_softmax(below, inside, STREAMS: tl.constexpr, PADDED: tl.constexpr):
    """Return the softmax over each column, and its divisors; ``below`` comes from :func:`below_largest`."""
    powers = exponential(below, inside)
    divisors = totals(powers, 1, STREAMS, PADDED, 0.0)
    return quotients(powers, divisors), divisors


@triton.jit
def first_matrix(
    below,
    columns,
    column_divisors,
    inside,
    STREAMS: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    EPS: tl.constexpr,
):
    """Return the matrix after the first iteration, and the sums of its rows that it was divided by.

    In the form ``paper`` each row is multiplied by a power of e that makes its largest entry 1, before it is divided:
    a row whose quotients would all be 0 keeps its proportions.
    """
    if FORM == "deepseek":
        scaled = columns + tl.where(inside, EPS, 0.0)
        divisors = totals(scaled, 2, STREAMS, PADDED, EPS)
    else:
        powers = exponential(below - tl.max(below, axis=2, keep_dims=True), inside)
        scaled = quotients(powers, column_divisors)
        divisors = totals(scaled, 2, STREAMS, PADDED, 0.0)
    return quotients(scaled, divisors), divisors


@triton.jit
def reciprocals(sums):
    """Return the reciprocals of sums from 1e-37 to 1e37, rounded once but for some whose rounding is all but a tie."""
    rough = 1.0 / sums
    return tl.fma(tl.fma(-sums, rough, tl.full(sums.shape, 1.0, tl.float32)), rough, rough)


@triton.jit
def unscaled(matrix):
    """Return the scales of rows and of columns of matrices that no iteration has scaled."""
    return tl.full([matrix.shape[0], matrix.shape[1], 1], 1.0, tl.float32), tl.full(
        [matrix.shape[0], 1, matrix.shape[2]], 1.0, tl.float32
    )


@triton.jit
def sums_of_scaled(matrix, others, before, AXIS: tl.constexpr, STREAMS: tl.constexpr, PADDED: tl.constexpr, EPS):
    """Return the reciprocals of the next scales: the sums along ``AXIS`` of entries times the ``others``, plus eps.

    The lines that are summed are scaled already, and ``before`` are the reciprocals of these scales: so eps is
    multiplied by them before it is added to a sum of scaled entries.
    """
    sums = totals(matrix * others, AXIS, STREAMS, PADDED, 0.0)
    if EPS != 0.0:
        sums = tl.fma(tl.full(sums.shape, EPS, tl.float32), before, sums)
    return sums


@triton.jit
def iterate(matrix, rows, columns, by_rows, by_columns, STREAMS: tl.constexpr, PADDED: tl.constexpr, EPS: tl.constexpr):
    """Return the scales after one more iteration, columns and then rows, and their reciprocals."""
    by_columns = sums_of_scaled(matrix, rows, by_columns, 1, STREAMS, PADDED, EPS)
    columns = reciprocals(by_columns)
    by_rows = sums_of_scaled(matrix, columns, by_rows, 2, STREAMS, PADDED, EPS)
    return reciprocals(by_rows), columns, by_rows, by_columns


@triton.jit
def scaled(matrix, count, STREAMS: tl.constexpr, PADDED: tl.constexpr, EPS: tl.constexpr):
    """Return matrices after ``count`` more iterations. No scale may overflow in them.

    An iteration scales rows and columns: entry (i, j) is rows[i] * matrix[i, j] * columns[j], and a division by sums is
    one reciprocal for each line.
    """
    rows, columns = unscaled(matrix)
    by_rows, by_columns = unscaled(matrix)
    for _ in range(count):
        rows, columns, by_rows, by_columns = iterate(matrix, rows, columns, by_rows, by_columns, STREAMS, PADDED, EPS)
    return matrix * rows * columns


@triton.jit
def after(matrix, count, STREAMS: tl.constexpr, PADDED: tl.constexpr, EPS: tl.constexpr):
    """Return matrices after ``count`` more iterations."""
    MOST: tl.constexpr = 20  # iterations in which no scale overflows
    for _ in range(count // MOST):
        matrix = scaled(matrix, MOST, STREAMS, PADDED, EPS)
    return scaled(matrix, count % MOST, STREAMS, PADDED, EPS)


@triton.jit(do_not_specialize=["tokens"])
def sinkhorn_kernel(
    logits,
    matrix,
    tokens,
    STREAMS: tl.constexpr,
    PADDED: tl.constexpr,
    ITERATIONS: tl.constexpr,
    EPS: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` matrices, on a GPU in one warp."""
    places, inside, real = matrices(tokens, STREAMS, PADDED, BLOCK_TOKENS)
    below = below_largest(tl.load(logits + places, mask=real, other=0.0))
    columns, divisors = column_softmax(below, inside, STREAMS, PADDED)
    current, _ = first_matrix(below, columns, divisors, inside, STREAMS, PADDED, FORM, EPS)
    current = after(current, ITERATIONS - 1, STREAMS, PADDED, EPS)
    tl.store(matrix + places, current, mask=real & inside)
