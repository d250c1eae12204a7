"""Gradient of ``sinkhorn`` for LLVM's CPU targets, and the way to its GPU form; tokens are free."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.cpu import Kernel
from mhc.backends.tvm.operator import Operands, Operator
from mhc.backends.tvm.sinkhorn_gpu import BACKWARD
from mhc.backends.tvm.vectors import registers
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads, SinkhornSpec


def _operands(inputs: SinkhornBackwardInputs, out: SinkhornGrads) -> Operands:
    return {"logits": inputs.logits, "grad_matrix": inputs.grad_matrix, "grad_logits": out.logits}


def _script(spec: SinkhornSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Go through the iterations again, keep every matrix, and go back over them.

    A step ``m = p / s`` with ``s = Σp + eps`` takes the gradient ``d`` of ``m`` to ``(d - Σ d·m) / s``, that of ``p``.
    Vectors are as in the forward.
    """
    f32 = "float32"
    n, iterations = spec.streams, spec.iterations
    lanes, _ = registers(target)

    @T.prim_func
    def sinkhorn_backward(logits_: T.handle, grad_matrix_: T.handle, grad_logits_: T.handle):
        T.func_attr({"global_symbol": "sinkhorn_backward", "tirx.noalias": True})
        tokens = T.int64()
        logits = T.match_buffer(logits_, (tokens, n, n), f32, align=4)
        grad_matrix = T.match_buffer(grad_matrix_, (tokens, n, n), f32, align=4)
        grad_logits = T.match_buffer(grad_logits_, (tokens, n, n), f32, align=4)

        # A last vector that is not full repeats the last token, and stores the same result again.
        for block in T.parallel(T.truncdiv(tokens + (lanes - 1), T.int64(lanes))):
            m = T.alloc_buffer((2 * iterations + 1, n, n, lanes), f32)
            grad = T.alloc_buffer((n, n, lanes), f32)
            line = T.alloc_buffer((lanes,), f32)
            dot = T.alloc_buffer((lanes,), f32)
            for a in range(n):
                for b in range(n):
                    for j in T.vectorized(lanes):
                        m[0, a, b, j] = logits[T.min(block * lanes + j, tokens - 1), a, b]
                for j in T.vectorized(lanes):
                    line[j] = m[0, a, 0, j]
                for b in range(1, n):
                    for j in T.vectorized(lanes):
                        line[j] = T.max(line[j], m[0, a, b, j])
                for b in range(n):
                    for j in T.vectorized(lanes):
                        m[0, a, b, j] = T.exp(m[0, a, b, j] - line[j])
            for k in range(iterations):
                for a in range(n):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                    for b in T.unroll(n):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * k, a, b, j]
                    for b in T.unroll(n):
                        for j in T.vectorized(lanes):
                            m[2 * k + 1, a, b, j] = m[2 * k, a, b, j] / (line[j] + T.float32(spec.eps))
                for b in range(n):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                    for a in T.unroll(n):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * k + 1, a, b, j]
                    for a in T.unroll(n):
                        for j in T.vectorized(lanes):
                            m[2 * k + 2, a, b, j] = m[2 * k + 1, a, b, j] / (line[j] + T.float32(spec.eps))

            for a, b in T.grid(n, n):
                for j in T.vectorized(lanes):
                    grad[a, b, j] = grad_matrix[T.min(block * lanes + j, tokens - 1), a, b]
            for back in range(iterations):
                for b in T.unroll(n):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                        dot[j] = T.float32(0)
                    for a in T.unroll(n):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * (iterations - back) - 1, a, b, j]
                            dot[j] = dot[j] + grad[a, b, j] * m[2 * (iterations - back), a, b, j]
                    for a in T.unroll(n):
                        for j in T.vectorized(lanes):
                            grad[a, b, j] = (grad[a, b, j] - dot[j]) / (line[j] + T.float32(spec.eps))
                for a in T.unroll(n):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                        dot[j] = T.float32(0)
                    for b in T.unroll(n):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * (iterations - back) - 2, a, b, j]
                            dot[j] = dot[j] + grad[a, b, j] * m[2 * (iterations - back) - 1, a, b, j]
                    for b in T.unroll(n):
                        for j in T.vectorized(lanes):
                            grad[a, b, j] = (grad[a, b, j] - dot[j]) / (line[j] + T.float32(spec.eps))
            for a, b in T.grid(n, n):
                for j in T.vectorized(lanes):
                    grad_logits[T.min(block * lanes + j, tokens - 1), a, b] = grad[a, b, j] * m[0, a, b, j]

    return sinkhorn_backward


_OPERATOR = Operator(Kernel("sinkhorn_backward", _script), BACKWARD, _operands)
run, compile = _OPERATOR.run, _OPERATOR.compile
