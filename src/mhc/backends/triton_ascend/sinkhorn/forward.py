"""The device code of ``sinkhorn``."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def places_of(tokens, STREAMS: tl.constexpr, PADDED: tl.constexpr, BLOCK_TOKENS: tl.constexpr):
    """Return where the entries of one program's matrices lie, which are no padding, and which are there."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)[:, None, None]
    i = tl.arange(0, PADDED)[None, :, None]
    j = tl.arange(0, PADDED)[None, None, :]
    inside = (i < STREAMS) & (j < STREAMS)
    return rows * (STREAMS * STREAMS) + i * STREAMS + j, inside, inside & (rows < tokens)


@triton.jit
def lines_along(AXIS: tl.constexpr, PADDED: tl.constexpr):
    """Return the numbers of the lines that lie along ``AXIS``: of the rows, or of the columns."""
    return tl.arange(0, PADDED)[None, :, None] if AXIS == 2 else tl.arange(0, PADDED)[None, None, :]


@triton.jit
def sums_along(matrix, AXIS: tl.constexpr, STREAMS: tl.constexpr, PADDED: tl.constexpr, EPS: tl.constexpr):
    """Return the sums along ``AXIS``, to divide by; 1 for a line of the padding."""
    return tl.where(lines_along(AXIS, PADDED) < STREAMS, tl.sum(matrix, axis=AXIS, keep_dims=True) + EPS, 1.0)


@triton.jit
def largest_along(matrix, inside, AXIS: tl.constexpr, STREAMS: tl.constexpr, PADDED: tl.constexpr):
    """Return the largest entries along ``AXIS``; 0 for a line of the padding."""
    largest = tl.max(tl.where(inside, matrix, -float("inf")), axis=AXIS, keep_dims=True)
    return tl.where(lines_along(AXIS, PADDED) < STREAMS, largest, 0.0)


@triton.jit
def first_matrix(logits, inside, STREAMS: tl.constexpr, PADDED: tl.constexpr, FORM: tl.constexpr, EPS: tl.constexpr):
    """Return the matrix after the first iteration, the softmax over each column, and the last divisors."""
    below = logits - largest_along(logits, inside, 1, STREAMS, PADDED)
    powers = tl.where(inside, tl.exp(below), 0.0)
    column_sums = sums_along(powers, 1, STREAMS, PADDED, 0.0)
    columns = powers / column_sums
    if FORM == "deepseek":
        scaled = tl.where(inside, columns + EPS, 0.0)
        divisors = sums_along(scaled, 2, STREAMS, PADDED, EPS)
    else:
        raised = tl.exp(below - largest_along(below, inside, 2, STREAMS, PADDED))
        scaled = tl.where(inside, raised, 0.0) / column_sums
        divisors = sums_along(scaled, 2, STREAMS, PADDED, 0.0)
    return scaled / divisors, columns, divisors


@triton.jit
def iterate(matrix, STREAMS: tl.constexpr, PADDED: tl.constexpr, EPS: tl.constexpr):
    """Return the matrix after one iteration: columns, then rows."""
    matrix = matrix / sums_along(matrix, 1, STREAMS, PADDED, EPS)
    return matrix / sums_along(matrix, 2, STREAMS, PADDED, EPS)


@triton.jit
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
    """One program computes ``BLOCK_TOKENS`` matrices."""
    places, inside, real = places_of(tokens, STREAMS, PADDED, BLOCK_TOKENS)
    current, _, _ = first_matrix(tl.load(logits + places, mask=real, other=0.0), inside, STREAMS, PADDED, FORM, EPS)
    for _ in range(ITERATIONS - 1):
        current = iterate(current, STREAMS, PADDED, EPS)
    tl.store(matrix + places, current, mask=real)
