"""The kernels of ``sinkhorn``'s gradient: a token's matrix is that of one thread, on a CPU and on a GPU."""

# No postponed annotations here: TileLang reads those of a kernel as values.

from types import ModuleType
from typing import Any

import tilelang.language as gpu_language

from mhc.backends.tilelang.compat import CPU_LAUNCH, cpu_language
from mhc.backends.tilelang.gpu import FP32
from mhc.backends.tilelang.sinkhorn.forward import THREADS, make_exponentials, make_iteration, unrolled
from mhc.ops.sinkhorn import SinkhornSpec


def _make_undo(spec: SinkhornSpec, language: ModuleType, unroll: Any) -> Any:
    """Return a macro: ``grad`` of the matrix after an iteration becomes that before it.

    With M' = M / S, of which S is a sum over M, the gradient of M is (g - Σ g·M') / S, summed along the same line. The
    M' must be the forward's own: where S is near eps, the division magnifies the difference of another rounding.
    """
    n, T = spec.streams, language

    @T.macro
    def undo(history, grad, divisors, place, scalar):
        for j in unroll(n):
            scalar[0] = T.float32(0)
            for i in unroll(n):
                scalar[0] = scalar[0] + grad[i, j] * history[2 * place + 1, i * n + j]
            for i in unroll(n):
                grad[i, j] = (grad[i, j] - scalar[0]) / divisors[place, n + j]
        for i in unroll(n):
            scalar[0] = T.float32(0)
            for j in unroll(n):
                scalar[0] = scalar[0] + grad[i, j] * history[2 * place, i * n + j]
            for j in unroll(n):
                grad[i, j] = (grad[i, j] - scalar[0]) / divisors[place, i]

    return undo


def _make_backward(spec: SinkhornSpec, language: ModuleType) -> Any:
    """Return a macro: the iterations again, each one's quotients kept, then back through them."""
    n, iterations, T = spec.streams, spec.iterations, language

    def unroll(extent: int) -> Any:
        return unrolled(T, extent)

    exponentials, iteration = make_exponentials(spec, T, unroll), make_iteration(spec, T, unroll, keep=True)
    undo = _make_undo(spec, T, unroll)

    @T.macro
    def backward(logits, grad_matrix, grad_logits, token):
        matrix = T.alloc_local((n, n), FP32)
        grad = T.alloc_local((n, n), FP32)
        divisors = T.alloc_local((iterations, 2 * n), FP32)
        history = T.alloc_local((2 * iterations, n * n), FP32)
        scalar = T.alloc_local((1,), FP32)
        exponentials(logits, token, matrix, scalar)
        for place in T.serial(iterations):
            iteration(matrix, divisors, history, place)
        for i in unroll(n):
            for j in unroll(n):
                grad[i, j] = grad_matrix[token, i * n + j]
        for place in T.serial(iterations):
            undo(history, grad, divisors, iterations - 1 - place, scalar)
        # Exactly what came out of the exponential; the maximum counts as a constant, as in the equations.
        exponentials(logits, token, matrix, scalar)
        for i in unroll(n):
            for j in unroll(n):
                grad_logits[token, i * n + j] = grad[i, j] * matrix[i, j]

    return backward


def gpu(spec: SinkhornSpec) -> Any:
    """Return the gradient of ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²]."""
    T = gpu_language
    size, backward, tokens = spec.streams**2, _make_backward(spec, T), T.dynamic("tokens")

    @T.prim_func
    def sinkhorn_backward(
        logits: T.Tensor((tokens, size), FP32),
        grad_matrix: T.Tensor((tokens, size), FP32),
        grad_logits: T.Tensor((tokens, size), FP32),
    ):
        with T.Kernel(T.ceildiv(tokens, THREADS), threads=THREADS) as block:
            token = block * THREADS + T.get_thread_binding()
            if token < tokens:
                backward(logits, grad_matrix, grad_logits, token)

    return sinkhorn_backward


def cpu(spec: SinkhornSpec, lanes: int) -> Any:
    """Return the gradient of ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²]."""
    T = cpu_language
    size, backward, tokens = spec.streams**2, _make_backward(spec, T), T.dynamic("tokens")

    @T.prim_func
    def sinkhorn_backward(
        logits: T.Tensor((tokens, size), FP32),
        grad_matrix: T.Tensor((tokens, size), FP32),
        grad_logits: T.Tensor((tokens, size), FP32),
    ):
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            backward(logits, grad_matrix, grad_logits, token)

    return sinkhorn_backward
