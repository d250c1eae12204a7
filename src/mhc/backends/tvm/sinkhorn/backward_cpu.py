"""The script of ``sinkhorn``'s gradient for LLVM's CPU targets."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from typing import Any

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.sinkhorn.forward_cpu import first_of
from mhc.backends.tvm.sinkhorn.tensors import tensors_of
from mhc.backends.tvm.vectors import registers
from mhc.ops.sinkhorn import SinkhornSpec


def undo_first_of(spec: SinkhornSpec, lanes: int) -> Any:
    """Return a macro: ``grad`` of the first iteration's matrix ``m[0]`` becomes the gradient of the logits."""
    streams, deepseek = spec.streams, spec.form == "deepseek"

    @T.macro
    def undo_first(m, columns, divisors, grad, dot):
        for a in range(streams):
            for j in T.vectorized(lanes):
                dot[j] = T.float32(0)
            for b in range(streams):
                for j in T.vectorized(lanes):
                    dot[j] = dot[j] + grad[a, b, j] * m[0, a, b, j]
            for b in range(streams):
                for j in T.vectorized(lanes):
                    if deepseek:
                        grad[a, b, j] = (grad[a, b, j] - dot[j]) / divisors[a, j]
                    else:
                        grad[a, b, j] = m[0, a, b, j] * (grad[a, b, j] - dot[j])
        for b in range(streams):
            for j in T.vectorized(lanes):
                dot[j] = T.float32(0)
            for a in range(streams):
                for j in T.vectorized(lanes):
                    if deepseek:
                        dot[j] = dot[j] + grad[a, b, j] * columns[a, b, j]
                    else:
                        dot[j] = dot[j] + grad[a, b, j]
            for a in range(streams):
                for j in T.vectorized(lanes):
                    if deepseek:
                        grad[a, b, j] = columns[a, b, j] * (grad[a, b, j] - dot[j])
                    else:
                        grad[a, b, j] = grad[a, b, j] - columns[a, b, j] * dot[j]

    return undo_first


def backward(spec: SinkhornSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Go through the iterations again, keep every matrix, and go back over them.

    A step ``m = p / s`` with ``s = Σp + eps`` takes the gradient ``d`` of ``m`` to ``(d - Σ d·m) / s``, the gradient of
    ``p``. Vectors are as in the forward. ``m[0]`` is the matrix after the first iteration.
    """
    f32 = "float32"
    streams, later = spec.streams, spec.iterations - 1
    lanes, _ = registers(target)
    first, undo_first = first_of(spec, lanes), undo_first_of(spec, lanes)
    tensors = tensors_of(spec)
    tokens = tensors.tokens

    @T.prim_func
    def sinkhorn_backward(logits: tensors.logits, grad_matrix: tensors.grad_matrix, grad_logits: tensors.grad_logits):
        T.func_attr({"global_symbol": "sinkhorn_backward", "tirx.noalias": True})
        # A last vector that is not full repeats the last token, and stores the same result again.
        for block in T.parallel(T.truncdiv(tokens + (lanes - 1), T.int64(lanes))):
            m = T.alloc_buffer((2 * later + 1, streams, streams, lanes), f32)
            begin = T.alloc_buffer((streams, streams, lanes), f32)
            columns = T.alloc_buffer((streams, streams, lanes), f32)
            grad = T.alloc_buffer((streams, streams, lanes), f32)
            sums = T.alloc_buffer((streams, lanes), f32)
            divisors = T.alloc_buffer((streams, lanes), f32)
            line = T.alloc_buffer((lanes,), f32)
            dot = T.alloc_buffer((lanes,), f32)
            first(logits, tokens, block, begin, columns, sums, divisors, line)
            for a, b in T.grid(streams, streams):
                for j in T.vectorized(lanes):
                    m[0, a, b, j] = begin[a, b, j]
                for j in T.vectorized(lanes):
                    grad[a, b, j] = grad_matrix[T.min(block * lanes + j, tokens - 1), a, b]
            for k in range(later):
                for b in range(streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * k, a, b, j]
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            m[2 * k + 1, a, b, j] = m[2 * k, a, b, j] / (line[j] + T.float32(spec.eps))
                for a in range(streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * k + 1, a, b, j]
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            m[2 * k + 2, a, b, j] = m[2 * k + 1, a, b, j] / (line[j] + T.float32(spec.eps))

            for back in range(later):
                for a in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                        dot[j] = T.float32(0)
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * (later - back) - 1, a, b, j]
                            dot[j] = dot[j] + grad[a, b, j] * m[2 * (later - back), a, b, j]
                    for b in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            grad[a, b, j] = (grad[a, b, j] - dot[j]) / (line[j] + T.float32(spec.eps))
                for b in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        line[j] = T.float32(0)
                        dot[j] = T.float32(0)
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[2 * (later - back) - 2, a, b, j]
                            dot[j] = dot[j] + grad[a, b, j] * m[2 * (later - back) - 1, a, b, j]
                    for a in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            grad[a, b, j] = (grad[a, b, j] - dot[j]) / (line[j] + T.float32(spec.eps))
            undo_first(m, columns, divisors, grad, dot)
            for a, b in T.grid(streams, streams):
                for j in T.vectorized(lanes):
                    grad_logits[T.min(block * lanes + j, tokens - 1), a, b] = grad[a, b, j]

    return sinkhorn_backward
