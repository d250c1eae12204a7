"""The script of ``sinkhorn``'s gradient for LLVM's CPU targets."""

# No postponed annotations here: TVM reads those of a script as its parameters.

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.sinkhorn.tensors import tensors_of
from mhc.backends.tvm.vectors import registers
from mhc.ops.sinkhorn import SinkhornSpec


def backward(spec: SinkhornSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Go through the iterations again, keep every matrix, and go back over them.

    A step ``m = p / s`` with ``s = Σp + eps`` takes the gradient ``d`` of ``m`` to ``(d - Σ d·m) / s``, that of ``p``.
    Vectors are as in the forward.
    """
    f32 = "float32"
    streams, iterations = spec.streams, spec.iterations
    lanes, _ = registers(target)
    tensors = tensors_of(spec)
    tokens = tensors.tokens

    @T.prim_func
    def sinkhorn_backward(logits: tensors.logits, grad_matrix: tensors.grad_matrix, grad_logits: tensors.grad_logits):
        T.func_attr({"global_symbol": "sinkhorn_backward", "tirx.noalias": True})
        # A last vector that is not full repeats the last token, and stores the same result again.
        for block in T.parallel(T.truncdiv(tokens + (lanes - 1), T.int64(lanes))):
            m = T.alloc_buffer((2 * iterations + 1, streams, streams, lanes), f32)
            grad = T.alloc_buffer((streams, streams, lanes), f32)
            line = T.alloc_buffer((lanes,), f32)
            dot = T.alloc_buffer((lanes,), f32)
            for a in range(streams):
                for b in range(streams):
                    for j in T.vectorized(lanes):
                        m[0, a, b, j] = logits[T.min(block * lanes + j, tokens - 1), a, b]
                for j in T.vectorized(lanes):
                    line[j] = m[0, a, 0, j]
                for b in range(1, streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.max(line[j], m[0, a, b, j])
                for b in range(streams):
                    for j in T.vectorized(lanes):
                        m[0, a, b, j] = T.exp(m[0, a, b, j] - line[j])
            for k in range(iterations):
                for a in range(streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * k, a, b, j]
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            m[2 * k + 1, a, b, j] = m[2 * k, a, b, j] / (line[j] + T.float32(spec.eps))
                for b in range(streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * k + 1, a, b, j]
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            m[2 * k + 2, a, b, j] = m[2 * k + 1, a, b, j] / (line[j] + T.float32(spec.eps))

            for a, b in T.grid(streams, streams):
                for j in T.vectorized(lanes):
                    grad[a, b, j] = grad_matrix[T.min(block * lanes + j, tokens - 1), a, b]
            for back in range(iterations):
                for b in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                        dot[j] = T.float32(0)
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * (iterations - back) - 1, a, b, j]
                            dot[j] = dot[j] + grad[a, b, j] * m[2 * (iterations - back), a, b, j]
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            grad[a, b, j] = (grad[a, b, j] - dot[j]) / (line[j] + T.float32(spec.eps))
                for a in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                        dot[j] = T.float32(0)
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * (iterations - back) - 2, a, b, j]
                            dot[j] = dot[j] + grad[a, b, j] * m[2 * (iterations - back) - 1, a, b, j]
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            grad[a, b, j] = (grad[a, b, j] - dot[j]) / (line[j] + T.float32(spec.eps))
            for a, b in T.grid(streams, streams):
                for j in T.vectorized(lanes):
                    grad_logits[T.min(block * lanes + j, tokens - 1), a, b] = grad[a, b, j] * m[0, a, b, j]

    return sinkhorn_backward
