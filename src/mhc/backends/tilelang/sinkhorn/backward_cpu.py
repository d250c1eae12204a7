"""The CPU kernel of ``sinkhorn``'s gradient: one token's matrix after the other."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import FP32
from mhc.backends.tilelang.sinkhorn.forward_cpu import lines, make_first, make_iteration
from mhc.ops.sinkhorn import SinkhornSpec


def make_undo(spec: SinkhornSpec) -> Any:
    """Return a macro: ``grad`` of the matrix after an iteration becomes that before it.

    With M' = M / S, where S is a sum over M, the gradient of M is (g - Σ g·M') / S, summed along the same line. The
    M' must be the forward's own: where S is near eps, the division magnifies the difference of another rounding.
    """
    n = spec.streams

    @T.macro
    def undo(history, grad, divisors, place, scalar):
        for i in lines(spec):
            scalar[0] = T.float32(0)
            for j in lines(spec):
                scalar[0] = scalar[0] + grad[i, j] * history[2 * place + 1, i * n + j]
            for j in lines(spec):
                grad[i, j] = (grad[i, j] - scalar[0]) / divisors[place, n + i]
        for j in lines(spec):
            scalar[0] = T.float32(0)
            for i in lines(spec):
                scalar[0] = scalar[0] + grad[i, j] * history[2 * place, i * n + j]
            for i in lines(spec):
                grad[i, j] = (grad[i, j] - scalar[0]) / divisors[place, j]

    return undo


def make_undo_first(spec: SinkhornSpec) -> Any:
    """Return a macro: ``grad`` of the first iteration's matrix becomes the gradient of the logits."""
    deepseek = spec.form == "deepseek"

    @T.macro
    def undo_first(matrix, columns, divisors, grad, scalar):
        for i in lines(spec):
            scalar[0] = T.float32(0)
            for j in lines(spec):
                scalar[0] = scalar[0] + grad[i, j] * matrix[i, j]
            for j in lines(spec):
                if deepseek:
                    grad[i, j] = (grad[i, j] - scalar[0]) / divisors[i]
                else:
                    grad[i, j] = matrix[i, j] * (grad[i, j] - scalar[0])
        for j in lines(spec):
            scalar[0] = T.float32(0)
            for i in lines(spec):
                if deepseek:
                    scalar[0] = scalar[0] + grad[i, j] * columns[i, j]
                else:
                    scalar[0] = scalar[0] + grad[i, j]
            for i in lines(spec):
                if deepseek:
                    grad[i, j] = columns[i, j] * (grad[i, j] - scalar[0])
                else:
                    grad[i, j] = grad[i, j] - columns[i, j] * scalar[0]

    return undo_first


def backward(spec: SinkhornSpec, lanes: int) -> Any:
    """Return the gradient of ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²].

    It goes through the iterations again and keeps the quotients and the divisors of each, then goes back over them.
    """
    n, later, tokens = spec.streams, spec.iterations - 1, T.dynamic("tokens")
    first, iteration = make_first(spec), make_iteration(spec, keep=True)
    undo, undo_first = make_undo(spec), make_undo_first(spec)

    @T.prim_func
    def sinkhorn_backward(
        logits: T.Tensor((tokens, n * n), FP32),
        grad_matrix: T.Tensor((tokens, n * n), FP32),
        grad_logits: T.Tensor((tokens, n * n), FP32),
    ):
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            begin = T.alloc_local((n, n), FP32)
            matrix = T.alloc_local((n, n), FP32)
            columns = T.alloc_local((n, n), FP32)
            grad = T.alloc_local((n, n), FP32)
            first_divisors = T.alloc_local((n,), FP32)
            # One iteration alone keeps nothing, and an array has at least one element.
            divisors = T.alloc_local((max(later, 1), 2 * n), FP32)
            history = T.alloc_local((2 * max(later, 1), n * n), FP32)
            sums = T.alloc_local((n,), FP32)
            scalar = T.alloc_local((1,), FP32)
            first(logits, token, begin, columns, first_divisors, sums, scalar)
            for i in lines(spec):
                for j in lines(spec):
                    matrix[i, j] = begin[i, j]
                    grad[i, j] = grad_matrix[token, i * n + j]
            for place in T.serial(later):
                iteration(matrix, divisors, history, place)
            for place in T.serial(later):
                undo(history, grad, divisors, later - 1 - place, scalar)
            undo_first(begin, columns, first_divisors, grad, scalar)
            for i in lines(spec):
                for j in lines(spec):
                    grad_logits[token, i * n + j] = grad[i, j]

    return sinkhorn_backward
