"""The GPU kernel of ``sinkhorn``'s gradient, with the threads and the sums of the forward."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.gpu import FP32
from mhc.backends.tilelang.sinkhorn.forward_gpu import THREADS, block_of, make_first, make_line
from mhc.ops.sinkhorn import SinkhornSpec


def make_divide(spec: SinkhornSpec, rows: bool) -> Any:
    """Return a macro: divide the matrix by the sums of its rows or columns, and keep quotients and divisors."""
    at, eps, total = block_of(spec), spec.eps, make_line(spec, rows)

    @T.macro
    def divide(entries, matrix, scalar, quotients, divisors, step, thread):
        total(entries, matrix, scalar, thread)
        for part in T.unroll(at.parts):
            divisors[step, part] = scalar[part] + T.float32(eps)
            matrix[part] = matrix[part] / divisors[step, part]
            quotients[step, part] = matrix[part]

    return divide


def make_undo(spec: SinkhornSpec, rows: bool) -> Any:
    """Return a macro: the gradient of the quotients of one step becomes the gradient of what was divided.

    With M' = M / S, where S is a sum over M, the gradient of M is (g - Σ g·M') / S, summed along the same line. The
    M' must be the forward's own: where S is near eps, the division magnifies the difference of another rounding.
    """
    at, total = block_of(spec), make_line(spec, rows)

    @T.macro
    def undo(entries, grad, product, scalar, quotients, divisors, step, thread):
        for part in T.unroll(at.parts):
            product[part] = grad[part] * quotients[step, part]
        total(entries, product, scalar, thread)
        for part in T.unroll(at.parts):
            grad[part] = (grad[part] - scalar[part]) / divisors[step, part]

    return undo


def make_undo_first(spec: SinkhornSpec) -> Any:
    """Return a macro: ``grad`` of the first iteration's matrix becomes the gradient of the logits."""
    at, deepseek = block_of(spec), spec.form == "deepseek"
    sum_of_row, sum_of_column = make_line(spec, True), make_line(spec, False)

    @T.macro
    def undo_first(entries, matrix, columns, divisor, grad, product, scalar, thread):
        for part in T.unroll(at.parts):
            product[part] = grad[part] * matrix[part]
        sum_of_row(entries, product, scalar, thread)
        for part in T.unroll(at.parts):
            if deepseek:
                grad[part] = (grad[part] - scalar[part]) / divisor[part]
                product[part] = grad[part] * columns[part]
            else:
                grad[part] = matrix[part] * (grad[part] - scalar[part])
                product[part] = grad[part]
        sum_of_column(entries, product, scalar, thread)
        for part in T.unroll(at.parts):
            if deepseek:
                grad[part] = columns[part] * (grad[part] - scalar[part])
            else:
                grad[part] = grad[part] - columns[part] * scalar[part]

    return undo_first


def backward(spec: SinkhornSpec) -> Any:
    """Return the gradient of ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²].

    A thread goes through the iterations again, keeps the quotients and the divisors of its entries, and goes back.
    """
    n, later, at = spec.streams, spec.iterations - 1, block_of(spec)
    first, undo_first, tokens = make_first(spec), make_undo_first(spec), T.dynamic("tokens")
    divide_columns, divide_rows = make_divide(spec, False), make_divide(spec, True)
    undo_columns, undo_rows = make_undo(spec, False), make_undo(spec, True)

    @T.prim_func
    def sinkhorn_backward(
        logits: T.Tensor((tokens, n * n), FP32),
        grad_matrix: T.Tensor((tokens, n * n), FP32),
        grad_logits: T.Tensor((tokens, n * n), FP32),
    ):
        with T.Kernel(T.ceildiv(tokens, at.height), threads=THREADS) as block:
            thread = T.get_thread_binding()
            entries = T.alloc_shared((at.slots,), FP32, scope="shared")
            begin = T.alloc_local((at.parts,), FP32)
            matrix = T.alloc_local((at.parts,), FP32)
            columns = T.alloc_local((at.parts,), FP32)
            divisor = T.alloc_local((at.parts,), FP32)
            scalar = T.alloc_local((at.parts,), FP32)
            product = T.alloc_local((at.parts,), FP32)
            grad = T.alloc_local((at.parts,), FP32)
            # One iteration alone keeps nothing, and an array has at least one element.
            quotients = T.alloc_local((2 * max(later, 1), at.parts), FP32)
            divisors = T.alloc_local((2 * max(later, 1), at.parts), FP32)
            first(logits, tokens, block, thread, entries, begin, columns, divisor, scalar)
            for part in T.unroll(at.parts):
                matrix[part] = begin[part]
                grad[part] = grad_matrix[T.min(at.token(block, thread, part), tokens - 1), at.entry(thread, part)]
            for k in T.serial(later):
                divide_columns(entries, matrix, scalar, quotients, divisors, 2 * k, thread)
                divide_rows(entries, matrix, scalar, quotients, divisors, 2 * k + 1, thread)
            for k in T.serial(later):
                undo_rows(entries, grad, product, scalar, quotients, divisors, 2 * (later - k) - 1, thread)
                undo_columns(entries, grad, product, scalar, quotients, divisors, 2 * (later - k) - 2, thread)
            undo_first(entries, begin, columns, divisor, grad, product, scalar, thread)
            for part in T.unroll(at.parts):
                if T.And(at.is_inside(thread, part), at.token(block, thread, part) < tokens):
                    grad_logits[at.token(block, thread, part), at.entry(thread, part)] = grad[part]

    return sinkhorn_backward
