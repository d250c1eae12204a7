"""The kernel of ``sinkhorn``'s gradient: a thread goes back over the iterations of one matrix, and keeps none of them.

The way to each iteration is computed again from the first matrix: kept, they would need more memory than a core has.
"""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.ascend.language as T

from mhc.backends.tilelang_ascend.sinkhorn.forward import make_first, make_half
from mhc.backends.tilelang_ascend.tiles import FP32, matrices_of
from mhc.ops.sinkhorn import SinkhornSpec


def make_undo(spec: SinkhornSpec, rows: bool) -> Any:
    """Return a macro: ``grad`` of a matrix that was divided by the sums of its lines becomes that before."""
    n = spec.streams

    @T.macro
    def undo(grad, quotients, sums, scalar):
        for line in T.serial(n):
            scalar[0] = T.float32(0)
            for k in T.serial(n):
                if rows:
                    scalar[0] = scalar[0] + grad[line, k] * quotients[line, k]
                else:
                    scalar[0] = scalar[0] + grad[k, line] * quotients[k, line]
            for k in T.serial(n):
                if rows:
                    grad[line, k] = (grad[line, k] - scalar[0]) / sums[line]
                else:
                    grad[k, line] = (grad[k, line] - scalar[0]) / sums[line]

    return undo


def make_undo_first(spec: SinkhornSpec) -> Any:
    """Return a macro: ``grad`` of the first matrix becomes the gradient of the logits."""
    n, deepseek = spec.streams, spec.form == "deepseek"

    @T.macro
    def undo_first(grad, matrix, columns, divisors, scalar):
        for i in T.serial(n):
            scalar[0] = T.float32(0)
            for j in T.serial(n):
                scalar[0] = scalar[0] + grad[i, j] * matrix[i, j]
            for j in T.serial(n):
                if deepseek:
                    grad[i, j] = (grad[i, j] - scalar[0]) / divisors[i]
                else:
                    grad[i, j] = matrix[i, j] * (grad[i, j] - scalar[0])
        for j in T.serial(n):
            scalar[0] = T.float32(0)
            for i in T.serial(n):
                if deepseek:
                    scalar[0] = scalar[0] + grad[i, j] * columns[i, j]
                else:
                    scalar[0] = scalar[0] + grad[i, j]
            for i in T.serial(n):
                if deepseek:
                    grad[i, j] = columns[i, j] * (grad[i, j] - scalar[0])
                else:
                    grad[i, j] = grad[i, j] - columns[i, j] * scalar[0]

    return undo_first


def sinkhorn_backward(spec: SinkhornSpec) -> Any:
    """Return the gradient of ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²]."""
    n, later, count = spec.streams, spec.iterations - 1, matrices_of(spec.streams)
    first, divide_columns, divide_rows = make_first(spec), make_half(spec, False), make_half(spec, True)
    undo_columns, undo_rows, undo_first = make_undo(spec, False), make_undo(spec, True), make_undo_first(spec)
    tokens = T.dynamic("tokens")

    @T.prim_func
    def sinkhorn_backward(
        logits: T.Tensor((tokens, n * n), FP32),
        grad_matrix: T.Tensor((tokens, n * n), FP32),
        grad_logits: T.Tensor((tokens, n * n), FP32),
    ):
        with T.Kernel(T.ceildiv(tokens, count)) as block:
            tile = T.alloc_shared((count, n * n), FP32)
            grads = T.alloc_shared((count, n * n), FP32)
            result = T.alloc_shared((count, n * n), FP32)
            T.copy(logits[block * count : block * count + count, 0 : n * n], tile)
            T.copy(grad_matrix[block * count : block * count + count, 0 : n * n], grads)
            with T.SimtVF(threads=count):
                thread = T.get_thread_binding()
                begin = T.alloc_local((n, n), FP32)
                columns = T.alloc_local((n, n), FP32)
                half = T.alloc_local((n, n), FP32)
                current = T.alloc_local((n, n), FP32)
                grad = T.alloc_local((n, n), FP32)
                sums = T.alloc_local((n,), FP32)
                row_sums = T.alloc_local((n,), FP32)
                divisors = T.alloc_local((n,), FP32)
                scalar = T.alloc_local((1,), FP32)
                first(tile, thread, begin, columns, divisors, sums, scalar)
                for i in T.serial(n):
                    for j in T.serial(n):
                        grad[i, j] = grads[thread, i * n + j]
                for done in T.serial(later):
                    for i in T.serial(n):
                        for j in T.serial(n):
                            current[i, j] = begin[i, j]
                    for _ in T.serial(later - 1 - done):
                        divide_columns(current, sums)
                        divide_rows(current, row_sums)
                    divide_columns(current, sums)
                    for i in T.serial(n):
                        for j in T.serial(n):
                            half[i, j] = current[i, j]
                    divide_rows(current, row_sums)
                    undo_rows(grad, current, row_sums, scalar)
                    undo_columns(grad, half, sums, scalar)
                undo_first(grad, begin, columns, divisors, scalar)
                for i in T.serial(n):
                    for j in T.serial(n):
                        result[thread, i * n + j] = grad[i, j]
            T.copy(result, grad_logits[block * count : block * count + count, 0 : n * n])

    return sinkhorn_backward
