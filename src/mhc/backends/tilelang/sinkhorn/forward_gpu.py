"""The GPU kernel of ``sinkhorn``: a thread has one entry of a matrix, or two of a large one.

A block has as many whole matrices as it has threads for. Sums go over a line of the matrix in shared memory, in the
order of its entries, by every thread of that line.
"""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T

from mhc.backends.slots import Block
from mhc.backends.tilelang.gpu import FP32
from mhc.ops.sinkhorn import SinkhornSpec

THREADS = 128


def block_of(spec: SinkhornSpec) -> Block:
    """Return which entries of the matrices a block's threads have."""
    return Block(spec.streams, THREADS, T.min)


def make_line(spec: SinkhornSpec, rows: bool, largest: bool = False) -> Any:
    """Return a macro: each slot's ``result`` becomes the sum, or the largest, of ``value`` over its row or column."""
    n, at = spec.streams, block_of(spec)
    along = at.in_row if rows else at.in_column

    @T.macro
    def line(entries, value, result, thread):
        for part in T.unroll(at.parts):
            entries[part * THREADS + thread] = value[part]
        T.sync_threads()
        for part in T.unroll(at.parts):
            result[part] = entries[along(thread, part, 0)]
            for k in T.unroll(n - 1):
                if largest:
                    if entries[along(thread, part, k + 1)] > result[part]:
                        result[part] = entries[along(thread, part, k + 1)]
                else:
                    result[part] = result[part] + entries[along(thread, part, k + 1)]
        T.sync_threads()

    return line


def make_first(spec: SinkhornSpec) -> Any:
    """Return a macro: ``matrix`` becomes that after the first iteration, ``columns`` the softmax over each column.

    ``divisor`` gets what the rows were divided by last. In the form ``paper`` each row is multiplied by a power of e
    that makes its largest entry 1, before it is divided: a row whose quotients would all be 0 keeps its proportions.
    """
    at, eps, deepseek = block_of(spec), spec.eps, spec.form == "deepseek"
    largest_of_column, largest_of_row = make_line(spec, False, largest=True), make_line(spec, True, largest=True)
    sum_of_column, sum_of_row = make_line(spec, False), make_line(spec, True)

    @T.macro
    def first(logits, tokens, block, thread, entries, matrix, columns, divisor, column_sum):
        for part in T.unroll(at.parts):
            matrix[part] = logits[T.min(at.token(block, thread, part), tokens - 1), at.entry(thread, part)]
        largest_of_column(entries, matrix, divisor, thread)
        for part in T.unroll(at.parts):
            matrix[part] = matrix[part] - divisor[part]
            columns[part] = T.exp(matrix[part])
        sum_of_column(entries, columns, column_sum, thread)
        for part in T.unroll(at.parts):
            columns[part] = columns[part] / column_sum[part]
        if deepseek:
            for part in T.unroll(at.parts):
                matrix[part] = columns[part] + T.float32(eps)
        else:
            largest_of_row(entries, matrix, divisor, thread)
            for part in T.unroll(at.parts):
                matrix[part] = T.exp(matrix[part] - divisor[part]) / column_sum[part]
        sum_of_row(entries, matrix, divisor, thread)
        for part in T.unroll(at.parts):
            if deepseek:
                divisor[part] = divisor[part] + T.float32(eps)
            matrix[part] = matrix[part] / divisor[part]

    return first


def forward(spec: SinkhornSpec) -> Any:
    """Return ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²]."""
    n, later, eps, at = spec.streams, spec.iterations - 1, spec.eps, block_of(spec)
    first, sum_of_column, sum_of_row = make_first(spec), make_line(spec, False), make_line(spec, True)
    tokens = T.dynamic("tokens")

    @T.prim_func
    def sinkhorn(logits: T.Tensor((tokens, n * n), FP32), matrix: T.Tensor((tokens, n * n), FP32)):
        with T.Kernel(T.ceildiv(tokens, at.height), threads=THREADS) as block:
            thread = T.get_thread_binding()
            entries = T.alloc_shared((at.slots,), FP32, scope="shared")
            current = T.alloc_local((at.parts,), FP32)
            columns = T.alloc_local((at.parts,), FP32)
            divisor = T.alloc_local((at.parts,), FP32)
            column_sum = T.alloc_local((at.parts,), FP32)
            first(logits, tokens, block, thread, entries, current, columns, divisor, column_sum)
            for _ in T.serial(later):
                sum_of_column(entries, current, divisor, thread)
                for part in T.unroll(at.parts):
                    current[part] = current[part] / (divisor[part] + T.float32(eps))
                sum_of_row(entries, current, divisor, thread)
                for part in T.unroll(at.parts):
                    current[part] = current[part] / (divisor[part] + T.float32(eps))
            for part in T.unroll(at.parts):
                if T.And(at.is_inside(thread, part), at.token(block, thread, part) < tokens):
                    matrix[at.token(block, thread, part), at.entry(thread, part)] = current[part]

    return sinkhorn
