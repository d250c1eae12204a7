"""The CPU kernel of ``sinkhorn``: one token's matrix after the other."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import FP32
from mhc.ops.sinkhorn import SinkhornSpec


def lines(spec: SinkhornSpec) -> Any:
    """Return a loop over the lines of a matrix, or over the entries of one, written out where there are few."""
    return T.unroll(spec.streams, explicit=True) if spec.streams <= 8 else T.serial(spec.streams)


def make_first(spec: SinkhornSpec) -> Any:
    """Return a macro: ``matrix`` becomes that after the first iteration, ``columns`` the softmax over each column.

    ``divisors`` get what its rows were divided by last. In the form ``paper`` each row is multiplied by a power of e
    that makes its largest entry 1, before it is divided: a row whose quotients would all be 0 keeps its proportions.
    """
    n, eps, deepseek = spec.streams, spec.eps, spec.form == "deepseek"

    @T.macro
    def first(logits, token, matrix, columns, divisors, sums, scalar):
        for j in lines(spec):
            # Not T.max: written out for C, TileLang takes its first operand from before the loop each time.
            scalar[0] = logits[token, j]
            for i in lines(spec):
                if logits[token, i * n + j] > scalar[0]:
                    scalar[0] = logits[token, i * n + j]
            for i in lines(spec):
                matrix[i, j] = logits[token, i * n + j] - scalar[0]
                columns[i, j] = T.exp(matrix[i, j])
            sums[j] = T.float32(0)
            for i in lines(spec):
                sums[j] = sums[j] + columns[i, j]
            for i in lines(spec):
                columns[i, j] = columns[i, j] / sums[j]
        for i in lines(spec):
            if deepseek:
                for j in lines(spec):
                    matrix[i, j] = columns[i, j] + T.float32(eps)
            else:
                scalar[0] = matrix[i, 0]
                for j in lines(spec):
                    if matrix[i, j] > scalar[0]:
                        scalar[0] = matrix[i, j]
                for j in lines(spec):
                    matrix[i, j] = T.exp(matrix[i, j] - scalar[0]) / sums[j]
            divisors[i] = T.float32(0)
            for j in lines(spec):
                divisors[i] = divisors[i] + matrix[i, j]
            if deepseek:
                divisors[i] = divisors[i] + T.float32(eps)
            for j in lines(spec):
                matrix[i, j] = matrix[i, j] / divisors[i]

    return first


def make_iteration(spec: SinkhornSpec, keep: bool) -> Any:
    """Return a macro: divide by the sums of columns, then of rows; ``keep`` both quotients and divisors."""
    n, eps = spec.streams, spec.eps

    @T.macro
    def iteration(matrix, divisors, history, place):
        for j in lines(spec):
            divisors[place, j] = T.float32(0)
            for i in lines(spec):
                divisors[place, j] = divisors[place, j] + matrix[i, j]
            divisors[place, j] = divisors[place, j] + T.float32(eps)
            for i in lines(spec):
                matrix[i, j] = matrix[i, j] / divisors[place, j]
                if keep:
                    history[2 * place, i * n + j] = matrix[i, j]
        for i in lines(spec):
            divisors[place, n + i] = T.float32(0)
            for j in lines(spec):
                divisors[place, n + i] = divisors[place, n + i] + matrix[i, j]
            divisors[place, n + i] = divisors[place, n + i] + T.float32(eps)
            for j in lines(spec):
                matrix[i, j] = matrix[i, j] / divisors[place, n + i]
                if keep:
                    history[2 * place + 1, i * n + j] = matrix[i, j]

    return iteration


def forward(spec: SinkhornSpec, lanes: int) -> Any:
    """Return ``sinkhorn`` as a prim_func over matrices as rows [tokens, n²]; a matrix is too small for ``lanes``."""
    n, iterations = spec.streams, spec.iterations
    first, iteration, tokens = make_first(spec), make_iteration(spec, keep=False), T.dynamic("tokens")

    @T.prim_func
    def sinkhorn(logits: T.Tensor((tokens, n * n), FP32), matrix: T.Tensor((tokens, n * n), FP32)):
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            current = T.alloc_local((n, n), FP32)
            columns = T.alloc_local((n, n), FP32)
            first_divisors = T.alloc_local((n,), FP32)
            divisors = T.alloc_local((1, 2 * n), FP32)
            sums = T.alloc_local((n,), FP32)
            scalar = T.alloc_local((1,), FP32)
            first(logits, token, current, columns, first_divisors, sums, scalar)
            for _ in T.serial(iterations - 1):
                iteration(current, divisors, current, 0)
            for i in lines(spec):
                for j in lines(spec):
                    matrix[token, i * n + j] = current[i, j]

    return sinkhorn
