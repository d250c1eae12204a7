"""The script of ``sinkhorn`` for GPUs: a thread has one entry of a matrix, or two of a large one.

A block has as many whole matrices as it has threads for. Sums go over a line of the matrix in shared memory, in the
order of its entries, by every thread of that line.
"""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from typing import Any

from tvm.script import tirx as T

from mhc.backends.slots import Block
from mhc.backends.tvm.gpu import THREADS, Dialect, Launch
from mhc.backends.tvm.sinkhorn.tensors import tensors_of
from mhc.ops.sinkhorn import SinkhornSpec


def block_of(spec: SinkhornSpec) -> Block:
    """Return which entries of the matrices a block's threads have."""
    return Block(spec.streams, THREADS, T.min)


def line_of(spec: SinkhornSpec, dialect: Dialect, rows: bool, largest: bool = False) -> Any:
    """Return a macro: each slot's ``result`` becomes the sum, or the largest, of ``value`` over its row or column."""
    each, at = dialect.each, block_of(spec)
    along = at.in_row if rows else at.in_column

    @T.macro
    def line(entries, value, result, thread):
        for part in each(at.parts):
            entries[part * THREADS + thread] = value[part]
        T.tvm_storage_sync("shared")
        for part in each(at.parts):
            result[part] = entries[along(thread, part, 0)]
            for k in each(spec.streams - 1):
                if largest:
                    result[part] = T.max(result[part], entries[along(thread, part, k + 1)])
                else:
                    result[part] = result[part] + entries[along(thread, part, k + 1)]
        T.tvm_storage_sync("shared")

    return line


def first_of(spec: SinkhornSpec, dialect: Dialect) -> Any:
    """Return a macro: ``m`` becomes the matrix after the first iteration, ``columns`` the softmax over each column.

    ``divisor`` gets what the rows were divided by last. In the form ``paper`` each row is multiplied by a power of e
    that makes its largest entry 1, before it is divided: a row whose quotients would all be 0 keeps its proportions.
    """
    each, at, deepseek = dialect.each, block_of(spec), spec.form == "deepseek"
    largest_of_column, largest_of_row = (line_of(spec, dialect, rows, largest=True) for rows in (False, True))
    sum_of_column, sum_of_row = (line_of(spec, dialect, rows) for rows in (False, True))

    @T.macro
    def first(logits, tokens, block, thread, entries, m, columns, divisor, column_sum):
        for part in each(at.parts):
            m[part] = logits[
                T.min(at.token(block, thread, part), tokens - 1), at.row(thread, part), at.column(thread, part)
            ]
        largest_of_column(entries, m, divisor, thread)
        for part in each(at.parts):
            m[part] = m[part] - divisor[part]
            columns[part] = T.exp(m[part])
        sum_of_column(entries, columns, column_sum, thread)
        for part in each(at.parts):
            columns[part] = columns[part] / column_sum[part]
        if deepseek:
            for part in each(at.parts):
                m[part] = columns[part] + T.float32(spec.eps)
        else:
            largest_of_row(entries, m, divisor, thread)
            for part in each(at.parts):
                m[part] = T.exp(m[part] - divisor[part]) / column_sum[part]
        sum_of_row(entries, m, divisor, thread)
        for part in each(at.parts):
            if deepseek:
                divisor[part] = divisor[part] + T.float32(spec.eps)
            m[part] = m[part] / divisor[part]

    return first


def forward(spec: SinkhornSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Keep the entries of a thread in registers; each step of an iteration exchanges them through shared memory."""
    f32, each, at = "float32", dialect.each, block_of(spec)
    first = first_of(spec, dialect)
    sum_of_column, sum_of_row = (line_of(spec, dialect, rows) for rows in (False, True))
    tensors = tensors_of(spec)
    tokens = tensors.tokens

    @T.prim_func
    def sinkhorn(logits: tensors.logits, matrix: tensors.matrix):
        T.func_attr({"global_symbol": "sinkhorn", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (at.height - 1), T.int64(at.height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        entries = T.alloc_buffer((at.parts * THREADS,), f32, scope="shared")
        m = T.alloc_buffer((at.parts,), f32, scope="local")
        columns = T.alloc_buffer((at.parts,), f32, scope="local")
        divisor = T.alloc_buffer((at.parts,), f32, scope="local")
        column_sum = T.alloc_buffer((at.parts,), f32, scope="local")

        first(logits, tokens, block, thread, entries, m, columns, divisor, column_sum)
        for _ in range(spec.iterations - 1):
            sum_of_column(entries, m, divisor, thread)
            for part in each(at.parts):
                m[part] = m[part] / (divisor[part] + T.float32(spec.eps))
            sum_of_row(entries, m, divisor, thread)
            for part in each(at.parts):
                m[part] = m[part] / (divisor[part] + T.float32(spec.eps))
        for part in each(at.parts):
            if at.is_inside(thread, part) and at.token(block, thread, part) < tokens:
                matrix[at.token(block, thread, part), at.row(thread, part), at.column(thread, part)] = m[part]

    return (Launch(sinkhorn, at.blocks),)
