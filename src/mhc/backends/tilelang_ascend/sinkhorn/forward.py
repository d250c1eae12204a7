"""The kernel of ``sinkhorn``: a core holds a block of matrices, and a thread has one of them."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.ascend.language as T

from mhc.backends.tilelang_ascend.tiles import FP32, matrices_of
from mhc.ops.sinkhorn import SinkhornSpec


def make_first(spec: SinkhornSpec) -> Any:
    """Return a macro: ``matrix`` becomes that after the first iteration, ``columns`` the softmax over each column.

    ``divisors`` get what its rows were divided by last. In the form ``paper`` each row is multiplied by a power of e
    that makes its largest entry 1, before it is divided: a row whose quotients would all be 0 keeps its proportions.
    """
    n, eps, deepseek = spec.streams, spec.eps, spec.form == "deepseek"

    @T.macro
    def first(tile, thread, matrix, columns, divisors, sums, scalar):
        for j in T.serial(n):
            scalar[0] = tile[thread, j]
            for i in T.serial(n):
                if tile[thread, i * n + j] > scalar[0]:
                    scalar[0] = tile[thread, i * n + j]
            sums[j] = T.float32(0)
            for i in T.serial(n):
                matrix[i, j] = tile[thread, i * n + j] - scalar[0]
                columns[i, j] = T.exp(matrix[i, j])
                sums[j] = sums[j] + columns[i, j]
            for i in T.serial(n):
                columns[i, j] = columns[i, j] / sums[j]
        for i in T.serial(n):
            if deepseek:
                for j in T.serial(n):
                    matrix[i, j] = columns[i, j] + T.float32(eps)
            else:
                scalar[0] = matrix[i, 0]
                for j in T.serial(n):
                    if matrix[i, j] > scalar[0]:
                        scalar[0] = matrix[i, j]
                for j in T.serial(n):
                    matrix[i, j] = T.exp(matrix[i, j] - scalar[0]) / sums[j]
            divisors[i] = T.float32(eps) if deepseek else T.float32(0)
            for j in T.serial(n):
                divisors[i] = divisors[i] + matrix[i, j]
            for j in T.serial(n):
                matrix[i, j] = matrix[i, j] / divisors[i]

    return first


def make_half(spec: SinkhornSpec, rows: bool) -> Any:
    """Return a macro: divide the entries of ``matrix`` by the sums of its rows, or columns, and keep the sums."""
    n, eps = spec.streams, spec.eps

    @T.macro
    def half(matrix, sums):
        for line in T.serial(n):
            sums[line] = T.float32(0)
            for k in T.serial(n):
                if rows:
                    sums[line] = sums[line] + matrix[line, k]
                else:
                    sums[line] = sums[line] + matrix[k, line]
            sums[line] = sums[line] + T.float32(eps)
            for k in T.serial(n):
                if rows:
                    matrix[line, k] = matrix[line, k] / sums[line]
                else:
                    matrix[k, line] = matrix[k, line] / sums[line]

    return half


def sinkhorn(spec: SinkhornSpec) -> Any:
    """Return ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²]."""
    n, later, count = spec.streams, spec.iterations - 1, matrices_of(spec.streams)
    first, divide_columns, divide_rows = make_first(spec), make_half(spec, False), make_half(spec, True)
    tokens = T.dynamic("tokens")

    @T.prim_func
    def sinkhorn(logits: T.Tensor((tokens, n * n), FP32), matrix: T.Tensor((tokens, n * n), FP32)):
        with T.Kernel(T.ceildiv(tokens, count)) as block:
            tile = T.alloc_shared((count, n * n), FP32)
            result = T.alloc_shared((count, n * n), FP32)
            T.copy(logits[block * count : block * count + count, 0 : n * n], tile)
            with T.SimtVF(threads=count):
                thread = T.get_thread_binding()
                current = T.alloc_local((n, n), FP32)
                columns = T.alloc_local((n, n), FP32)
                sums = T.alloc_local((n,), FP32)
                divisors = T.alloc_local((n,), FP32)
                scalar = T.alloc_local((1,), FP32)
                first(tile, thread, current, columns, divisors, sums, scalar)
                for _ in T.serial(later):
                    divide_columns(current, sums)
                    divide_rows(current, sums)
                for i in T.serial(n):
                    for j in T.serial(n):
                        result[thread, i * n + j] = current[i, j]
            T.copy(result, matrix[block * count : block * count + count, 0 : n * n])

    return sinkhorn
