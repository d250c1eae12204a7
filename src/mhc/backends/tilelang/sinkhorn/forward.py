"""The kernels of ``sinkhorn``: a token's matrix is that of one thread, on a CPU and on a GPU."""

# No postponed annotations here: TileLang reads those of a kernel as values.

from types import ModuleType
from typing import Any

import tilelang.language as gpu_language

from mhc.backends.tilelang.compat import CPU_LAUNCH, cpu_language
from mhc.backends.tilelang.gpu import FP32
from mhc.ops.sinkhorn import SinkhornSpec

# Few threads per block: a matrix takes many registers, and there are seldom enough tokens for more.
THREADS = 64


def unrolled(language: ModuleType, extent: int) -> Any:
    """Return a loop without a counter, so that what it indexes can be in registers; C needs it written out."""
    return language.unroll(extent, explicit=True) if language is cpu_language else language.unroll(extent)


def make_exponentials(spec: SinkhornSpec, language: ModuleType, unroll: Any) -> Any:
    """Return a macro: ``matrix`` becomes exp(logits - max of its row)."""
    n, T = spec.streams, language

    @T.macro
    def exponentials(logits, token, matrix, scalar):
        for i in unroll(n):
            for j in unroll(n):
                matrix[i, j] = logits[token, i * n + j]
            scalar[0] = matrix[i, 0]
            for j in unroll(n):
                # Not T.max: written out for C, TileLang takes its first operand from before the loop each time.
                if matrix[i, j] > scalar[0]:
                    scalar[0] = matrix[i, j]
            for j in unroll(n):
                matrix[i, j] = T.exp(matrix[i, j] - scalar[0])

    return exponentials


def make_iteration(spec: SinkhornSpec, language: ModuleType, unroll: Any, keep: bool) -> Any:
    """Return a macro: divide by the sums of rows, then by those of columns; ``keep`` both quotients and divisors."""
    n, eps, T = spec.streams, spec.eps, language

    @T.macro
    def iteration(matrix, divisors, history, place):
        for i in unroll(n):
            divisors[place, i] = T.float32(0)
            for j in unroll(n):
                divisors[place, i] = divisors[place, i] + matrix[i, j]
            divisors[place, i] = divisors[place, i] + T.float32(eps)
            for j in unroll(n):
                matrix[i, j] = matrix[i, j] / divisors[place, i]
                if keep:
                    history[2 * place, i * n + j] = matrix[i, j]
        for j in unroll(n):
            divisors[place, n + j] = T.float32(0)
            for i in unroll(n):
                divisors[place, n + j] = divisors[place, n + j] + matrix[i, j]
            divisors[place, n + j] = divisors[place, n + j] + T.float32(eps)
            for i in unroll(n):
                matrix[i, j] = matrix[i, j] / divisors[place, n + j]
                if keep:
                    history[2 * place + 1, i * n + j] = matrix[i, j]

    return iteration


def _make_forward(spec: SinkhornSpec, language: ModuleType) -> Any:
    """Return a macro: all of ``sinkhorn`` for one token."""
    n, iterations, T = spec.streams, spec.iterations, language

    def unroll(extent: int) -> Any:
        return unrolled(T, extent)

    exponentials, iteration = make_exponentials(spec, T, unroll), make_iteration(spec, T, unroll, keep=False)

    @T.macro
    def forward(logits, result, token):
        matrix = T.alloc_local((n, n), FP32)
        divisors = T.alloc_local((1, 2 * n), FP32)
        scalar = T.alloc_local((1,), FP32)
        exponentials(logits, token, matrix, scalar)
        for _ in T.serial(iterations):
            iteration(matrix, divisors, matrix, 0)
        for i in unroll(n):
            for j in unroll(n):
                result[token, i * n + j] = matrix[i, j]

    return forward


def gpu(spec: SinkhornSpec) -> Any:
    """Return ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²]."""
    T = gpu_language
    size, forward, tokens = spec.streams**2, _make_forward(spec, T), T.dynamic("tokens")

    @T.prim_func
    def sinkhorn(logits: T.Tensor((tokens, size), FP32), matrix: T.Tensor((tokens, size), FP32)):
        with T.Kernel(T.ceildiv(tokens, THREADS), threads=THREADS) as block:
            token = block * THREADS + T.get_thread_binding()
            if token < tokens:
                forward(logits, matrix, token)

    return sinkhorn


def cpu(spec: SinkhornSpec, lanes: int) -> Any:
    """Return ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²]; a matrix is too small for ``lanes``."""
    T = cpu_language
    size, forward, tokens = spec.streams**2, _make_forward(spec, T), T.dynamic("tokens")

    @T.prim_func
    def sinkhorn(logits: T.Tensor((tokens, size), FP32), matrix: T.Tensor((tokens, size), FP32)):
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            forward(logits, matrix, token)

    return sinkhorn
