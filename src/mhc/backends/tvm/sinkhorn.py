"""``sinkhorn`` for LLVM's CPU targets, and the way to its GPU form; tokens are free."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.cpu import Kernel
from mhc.backends.tvm.operator import Operands, Operator
from mhc.backends.tvm.sinkhorn_gpu import FORWARD
from mhc.backends.tvm.vectors import registers
from mhc.ops.sinkhorn import SinkhornInputs, SinkhornOutputs, SinkhornSpec


def _operands(inputs: SinkhornInputs, out: SinkhornOutputs) -> Operands:
    return {"logits": inputs.logits, "matrix": out.matrix}


def _script(spec: SinkhornSpec, target: Target) -> tvm.tirx.PrimFunc:
    """A vector has one entry of as many tokens' matrices as it has lanes: no sum goes across lanes."""
    f32 = "float32"
    n = spec.streams
    lanes, _ = registers(target)

    @T.prim_func
    def sinkhorn(logits_: T.handle, matrix_: T.handle):
        T.func_attr({"global_symbol": "sinkhorn", "tirx.noalias": True})
        tokens = T.int64()
        logits = T.match_buffer(logits_, (tokens, n, n), f32, align=4)
        matrix = T.match_buffer(matrix_, (tokens, n, n), f32, align=4)

        # A last vector that is not full repeats the last token, and stores the same result again.
        for block in T.parallel(T.truncdiv(tokens + (lanes - 1), T.int64(lanes))):
            m = T.alloc_buffer((n, n, lanes), f32)
            line = T.alloc_buffer((lanes,), f32)
            for a, b in T.grid(n, n):
                for j in T.vectorized(lanes):
                    m[a, b, j] = logits[T.min(block * lanes + j, tokens - 1), a, b]
            for a in range(n):
                for j in T.vectorized(lanes):
                    line[j] = m[a, 0, j]
                for b in range(1, n):
                    for j in T.vectorized(lanes):
                        line[j] = T.max(line[j], m[a, b, j])
                for b in range(n):
                    for j in T.vectorized(lanes):
                        m[a, b, j] = T.exp(m[a, b, j] - line[j])
            for _ in range(spec.iterations):
                for a in T.unroll(n):
                    for j in T.vectorized(lanes):
                        line[j] = m[a, 0, j]
                    for b in T.unroll(1, n):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[a, b, j]
                    for b in T.unroll(n):
                        for j in T.vectorized(lanes):
                            m[a, b, j] = m[a, b, j] / (line[j] + T.float32(spec.eps))
                for b in T.unroll(n):
                    for j in T.vectorized(lanes):
                        line[j] = m[0, b, j]
                    for a in T.unroll(1, n):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[a, b, j]
                    for a in T.unroll(n):
                        for j in T.vectorized(lanes):
                            m[a, b, j] = m[a, b, j] / (line[j] + T.float32(spec.eps))
            for a, b in T.grid(n, n):
                for j in T.vectorized(lanes):
                    matrix[T.min(block * lanes + j, tokens - 1), a, b] = m[a, b, j]

    return sinkhorn


_OPERATOR = Operator(Kernel("sinkhorn", _script), FORWARD, _operands)
run, compile = _OPERATOR.run, _OPERATOR.compile
