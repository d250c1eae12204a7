"""Gradient of ``sinkhorn`` for LLVM's CPU targets; one compilation serves every number of tokens."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends import Artifact, stage
from mhc.backends.tvm.cpu import Kernel
from mhc.backends.tvm.vectors import registers
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads, SinkhornSpec


def run(inputs: SinkhornBackwardInputs, out: SinkhornGrads, target: str | None = None) -> None:
    """Run on the CPU, in the tensors' own memory; ``target`` is a CPU that LLVM knows, None this one.

    Raises:
        ValueError: the target is not a CPU of this architecture, or has instructions that this CPU lacks.
    """
    kernel = _KERNEL.function(inputs.spec, target)
    with stage("launch"):
        kernel(inputs.logits, inputs.grad_matrix, out.logits)


def compile(spec: SinkhornSpec, target: str) -> Artifact:
    """A shared library with the kernel in TVM's calling convention.

    Raises:
        ValueError: the target is not a CPU that LLVM knows for the architecture of this machine.
    """
    return _KERNEL.artifact(spec, target)


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


_KERNEL = Kernel("sinkhorn_backward", _script)
