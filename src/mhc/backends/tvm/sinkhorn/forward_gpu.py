"""The script of ``sinkhorn`` for GPUs. A thread has one entry of a matrix; a block has as many matrices as it holds.

Sums go over a line of the matrix in shared memory, in the order of its entries, by every thread of that line.
"""

# No postponed annotations here: TVM reads those of a script as its parameters.

from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch
from mhc.backends.tvm.sinkhorn.tensors import tensors_of
from mhc.ops.sinkhorn import SinkhornSpec


def matrices_of_a_block(spec: SinkhornSpec) -> int:
    """Return the matrices of a block. Threads beyond the last matrix repeat it, and store nothing."""
    return THREADS // (spec.streams * spec.streams)


def exponential_of(spec: SinkhornSpec) -> Any:
    """Return a macro that writes ``exp(logit - max of its row)`` to ``m[0]``."""
    streams = spec.streams

    @T.macro
    def exponential(logits, token, row, column, m, line):
        line[0] = logits[token, row, 0]
        for b in T.serial(streams - 1):
            line[0] = T.max(line[0], logits[token, row, b + 1])
        m[0] = T.exp(logits[token, row, column] - line[0])

    return exponential


def forward(spec: SinkhornSpec, dialect: Dialect) -> tuple[Launch, ...]:
    f32, streams, height = "float32", spec.streams, matrices_of_a_block(spec)
    exponential = exponential_of(spec)
    tensors = tensors_of(spec)
    tokens = tensors.tokens

    @T.prim_func
    def sinkhorn(logits: tensors.logits, matrix: tensors.matrix):
        T.func_attr({"global_symbol": "sinkhorn", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (height - 1), T.int64(height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        entries = T.alloc_buffer((THREADS,), f32, scope="shared")
        m = T.alloc_buffer((1,), f32, scope="local")
        line = T.alloc_buffer((1,), f32, scope="local")
        first: T.let = thread // (streams * streams) * (streams * streams)
        row: T.let = thread % (streams * streams) // streams
        column: T.let = thread % streams
        token: T.let = T.min(block * height + thread // (streams * streams), tokens - 1)

        exponential(logits, token, row, column, m, line)
        for _ in range(spec.iterations):
            entries[thread] = m[0]
            T.tvm_storage_sync("shared")
            line[0] = T.float32(0)
            for b in dialect.each(streams):
                line[0] = line[0] + entries[T.min(first + row * streams + b, THREADS - 1)]
            m[0] = m[0] / (line[0] + T.float32(spec.eps))
            T.tvm_storage_sync("shared")
            entries[thread] = m[0]
            T.tvm_storage_sync("shared")
            line[0] = T.float32(0)
            for a in dialect.each(streams):
                line[0] = line[0] + entries[T.min(first + a * streams + column, THREADS - 1)]
            m[0] = m[0] / (line[0] + T.float32(spec.eps))
            T.tvm_storage_sync("shared")
        if thread < height * streams * streams and block * height + thread // (streams * streams) < tokens:
            matrix[token, row, column] = m[0]

    return (Launch(sinkhorn, lambda tokens: (-(-tokens // height), 1)),)
