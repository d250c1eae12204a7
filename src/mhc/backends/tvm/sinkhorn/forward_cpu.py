"""The script of ``sinkhorn`` for LLVM's CPU targets."""

# No postponed annotations here: TVM reads those of a script as its parameters.

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.sinkhorn.tensors import tensors_of
from mhc.backends.tvm.vectors import registers
from mhc.ops.sinkhorn import SinkhornSpec


def forward(spec: SinkhornSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Give each lane of a vector the matrix of another token: no sum goes across lanes."""
    f32 = "float32"
    streams = spec.streams
    lanes, _ = registers(target)
    tensors = tensors_of(spec)
    tokens = tensors.tokens

    @T.prim_func
    def sinkhorn(logits: tensors.logits, matrix: tensors.matrix):
        T.func_attr({"global_symbol": "sinkhorn", "tirx.noalias": True})
        # A last vector that is not full repeats the last token, and stores the same result again.
        for block in T.parallel(T.truncdiv(tokens + (lanes - 1), T.int64(lanes))):
            m = T.alloc_buffer((streams, streams, lanes), f32)
            line = T.alloc_buffer((lanes,), f32)
            for a, b in T.grid(streams, streams):
                for j in T.vectorized(lanes):
                    m[a, b, j] = logits[T.min(block * lanes + j, tokens - 1), a, b]
            for a in range(streams):
                for j in T.vectorized(lanes):
                    line[j] = m[a, 0, j]
                for b in range(1, streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.max(line[j], m[a, b, j])
                for b in range(streams):
                    for j in T.vectorized(lanes):
                        m[a, b, j] = T.exp(m[a, b, j] - line[j])
            for _ in range(spec.iterations):
                for a in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        line[j] = m[a, 0, j]
                    for b in T.unroll(1, streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[a, b, j]
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            m[a, b, j] = m[a, b, j] / (line[j] + T.float32(spec.eps))
                for b in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        line[j] = m[0, b, j]
                    for a in T.unroll(1, streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[a, b, j]
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            m[a, b, j] = m[a, b, j] / (line[j] + T.float32(spec.eps))
            for a, b in T.grid(streams, streams):
                for j in T.vectorized(lanes):
                    matrix[T.min(block * lanes + j, tokens - 1), a, b] = m[a, b, j]

    return sinkhorn
