"""The script of ``sinkhorn`` for LLVM's CPU targets."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from typing import Any

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.sinkhorn.tensors import tensors_of
from mhc.backends.tvm.vectors import registers
from mhc.ops.sinkhorn import SinkhornSpec


def first_of(spec: SinkhornSpec, lanes: int) -> Any:
    """Return a macro: ``m`` becomes the matrix after the first iteration, ``columns`` the softmax over each column.

    ``divisors`` get what its rows were divided by last. In the form ``paper`` each row is multiplied by a power of e
    that makes its largest entry 1, before it is divided: a row whose quotients would all be 0 keeps its proportions.
    """
    streams, deepseek = spec.streams, spec.form == "deepseek"

    @T.macro
    def first(logits, tokens, block, m, columns, sums, divisors, line):
        for b in range(streams):
            for a in range(streams):
                for j in T.vectorized(lanes):
                    m[a, b, j] = logits[T.min(block * lanes + j, tokens - 1), a, b]
            for j in T.vectorized(lanes):
                line[j] = m[0, b, j]
                sums[b, j] = T.float32(0)
            for a in range(1, streams):
                for j in T.vectorized(lanes):
                    line[j] = T.max(line[j], m[a, b, j])
            for a in range(streams):
                for j in T.vectorized(lanes):
                    m[a, b, j] = m[a, b, j] - line[j]
                for j in T.vectorized(lanes):
                    columns[a, b, j] = T.exp(m[a, b, j])
                for j in T.vectorized(lanes):
                    sums[b, j] = sums[b, j] + columns[a, b, j]
            for a in range(streams):
                for j in T.vectorized(lanes):
                    columns[a, b, j] = columns[a, b, j] / sums[b, j]
        for a in range(streams):
            if deepseek:
                for b in range(streams):
                    for j in T.vectorized(lanes):
                        m[a, b, j] = columns[a, b, j] + T.float32(spec.eps)
            else:
                for j in T.vectorized(lanes):
                    line[j] = m[a, 0, j]
                for b in range(1, streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.max(line[j], m[a, b, j])
                for b in range(streams):
                    for j in T.vectorized(lanes):
                        m[a, b, j] = T.exp(m[a, b, j] - line[j]) / sums[b, j]
            for j in T.vectorized(lanes):
                divisors[a, j] = T.float32(0)
            for b in range(streams):
                for j in T.vectorized(lanes):
                    divisors[a, j] = divisors[a, j] + m[a, b, j]
            if deepseek:
                for j in T.vectorized(lanes):
                    divisors[a, j] = divisors[a, j] + T.float32(spec.eps)
            for b in range(streams):
                for j in T.vectorized(lanes):
                    m[a, b, j] = m[a, b, j] / divisors[a, j]

    return first


def forward(spec: SinkhornSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Give each lane of a vector the matrix of another token: no sum goes across lanes."""
    f32 = "float32"
    streams = spec.streams
    lanes, _ = registers(target)
    first = first_of(spec, lanes)
    tensors = tensors_of(spec)
    tokens = tensors.tokens

    @T.prim_func
    def sinkhorn(logits: tensors.logits, matrix: tensors.matrix):
        T.func_attr({"global_symbol": "sinkhorn", "tirx.noalias": True})
        # A last vector that is not full repeats the last token, and stores the same result again.
        for block in T.parallel(T.truncdiv(tokens + (lanes - 1), T.int64(lanes))):
            m = T.alloc_buffer((streams, streams, lanes), f32)
            columns = T.alloc_buffer((streams, streams, lanes), f32)
            sums = T.alloc_buffer((streams, lanes), f32)
            divisors = T.alloc_buffer((streams, lanes), f32)
            line = T.alloc_buffer((lanes,), f32)
            first(logits, tokens, block, m, columns, sums, divisors, line)
            for _ in range(spec.iterations - 1):
                for b in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        line[j] = m[0, b, j]
                    for a in T.unroll(1, streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[a, b, j]
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            m[a, b, j] = m[a, b, j] / (line[j] + T.float32(spec.eps))
                for a in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        line[j] = m[a, 0, j]
                    for b in T.unroll(1, streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[a, b, j]
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            m[a, b, j] = m[a, b, j] / (line[j] + T.float32(spec.eps))
            for a, b in T.grid(streams, streams):
                for j in T.vectorized(lanes):
                    matrix[T.min(block * lanes + j, tokens - 1), a, b] = m[a, b, j]

    return sinkhorn
