"""``sinkhorn`` and its gradient for GPUs. A thread has one entry of a matrix; a block has as many matrices as it holds.

Sums go over a line of the matrix in shared memory, in the order of its entries, by every thread of that line.
"""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, GpuKernel, Launch
from mhc.ops.sinkhorn import SinkhornSpec


def _height(spec: SinkhornSpec) -> int:
    """Matrices of a block. Threads beyond the last one repeat it, and store nothing."""
    return THREADS // (spec.streams * spec.streams)


def _exponential(spec: SinkhornSpec) -> Any:
    """A macro that writes ``exp(logit - max of its row)`` to ``m[0]``."""
    n = spec.streams

    @T.macro
    def exponential(logits, token, row, column, m, line):
        line[0] = logits[token, row, 0]
        for b in T.serial(n - 1):
            line[0] = T.max(line[0], logits[token, row, b + 1])
        m[0] = T.exp(logits[token, row, column] - line[0])

    return exponential


def _forward(spec: SinkhornSpec, dialect: Dialect) -> tuple[Launch, ...]:
    f32, n, height = "float32", spec.streams, _height(spec)
    exponential = _exponential(spec)

    @T.prim_func
    def sinkhorn(logits_: T.handle, matrix_: T.handle):
        T.func_attr({"global_symbol": "sinkhorn", "tirx.noalias": True})
        tokens = T.int64()
        logits = T.match_buffer(logits_, (tokens, n, n), f32, align=4)
        matrix = T.match_buffer(matrix_, (tokens, n, n), f32, align=4)

        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (height - 1), T.int64(height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        entries = T.alloc_buffer((THREADS,), f32, scope="shared")
        m = T.alloc_buffer((1,), f32, scope="local")
        line = T.alloc_buffer((1,), f32, scope="local")
        first: T.let = thread // (n * n) * (n * n)
        row: T.let = thread % (n * n) // n
        column: T.let = thread % n
        token: T.let = T.min(block * height + thread // (n * n), tokens - 1)

        exponential(logits, token, row, column, m, line)
        for _ in range(spec.iterations):
            entries[thread] = m[0]
            T.tvm_storage_sync("shared")
            line[0] = T.float32(0)
            for b in dialect.each(n):
                line[0] = line[0] + entries[T.min(first + row * n + b, THREADS - 1)]
            m[0] = m[0] / (line[0] + T.float32(spec.eps))
            T.tvm_storage_sync("shared")
            entries[thread] = m[0]
            T.tvm_storage_sync("shared")
            line[0] = T.float32(0)
            for a in dialect.each(n):
                line[0] = line[0] + entries[T.min(first + a * n + column, THREADS - 1)]
            m[0] = m[0] / (line[0] + T.float32(spec.eps))
            T.tvm_storage_sync("shared")
        if thread < height * n * n and block * height + thread // (n * n) < tokens:
            matrix[token, row, column] = m[0]

    return (Launch(sinkhorn, lambda tokens: (-(-tokens // height), 1)),)


def _backward(spec: SinkhornSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Go through the iterations again, keep every state of the thread's entry, and go back over them.

    A step ``m = p / s`` with ``s = Σp + eps`` takes the gradient ``d`` of ``m`` to ``(d - Σ d·m) / s``, that of ``p``.
    """
    f32, n, height, iterations = "float32", spec.streams, _height(spec), spec.iterations
    exponential = _exponential(spec)

    @T.macro
    def forward(entries, m, line, thread, start, stride, k):
        entries[thread] = m[k]
        T.tvm_storage_sync("shared")
        line[0] = T.float32(0)
        for b in dialect.each(n):
            line[0] = line[0] + entries[T.min(start + b * stride, THREADS - 1)]
        m[k + 1] = m[k] / (line[0] + T.float32(spec.eps))
        T.tvm_storage_sync("shared")

    @T.macro
    def back(entries, products, m, grad, line, dot, thread, start, stride, k):
        entries[thread] = m[k]
        products[thread] = grad[0] * m[k + 1]
        T.tvm_storage_sync("shared")
        line[0] = T.float32(0)
        dot[0] = T.float32(0)
        for b in dialect.each(n):
            line[0] = line[0] + entries[T.min(start + b * stride, THREADS - 1)]
            dot[0] = dot[0] + products[T.min(start + b * stride, THREADS - 1)]
        grad[0] = (grad[0] - dot[0]) / (line[0] + T.float32(spec.eps))
        T.tvm_storage_sync("shared")

    @T.prim_func
    def sinkhorn_backward(logits_: T.handle, grad_matrix_: T.handle, grad_logits_: T.handle):
        T.func_attr({"global_symbol": "sinkhorn_backward", "tirx.noalias": True})
        tokens = T.int64()
        logits = T.match_buffer(logits_, (tokens, n, n), f32, align=4)
        grad_matrix = T.match_buffer(grad_matrix_, (tokens, n, n), f32, align=4)
        grad_logits = T.match_buffer(grad_logits_, (tokens, n, n), f32, align=4)

        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (height - 1), T.int64(height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        entries = T.alloc_buffer((THREADS,), f32, scope="shared")
        products = T.alloc_buffer((THREADS,), f32, scope="shared")
        m = T.alloc_buffer((2 * iterations + 1,), f32, scope="local")
        grad = T.alloc_buffer((1,), f32, scope="local")
        line = T.alloc_buffer((1,), f32, scope="local")
        dot = T.alloc_buffer((1,), f32, scope="local")
        first: T.let = thread // (n * n) * (n * n)
        row: T.let = thread % (n * n) // n
        column: T.let = thread % n
        token: T.let = T.min(block * height + thread // (n * n), tokens - 1)

        exponential(logits, token, row, column, m, line)
        for k in range(iterations):
            forward(entries, m, line, thread, first + row * n, 1, 2 * k)
            forward(entries, m, line, thread, first + column, n, 2 * k + 1)
        grad[0] = grad_matrix[token, row, column]
        for k in range(iterations):
            back(entries, products, m, grad, line, dot, thread, first + column, n, 2 * (iterations - k) - 1)
            back(entries, products, m, grad, line, dot, thread, first + row * n, 1, 2 * (iterations - k) - 2)
        if thread < height * n * n and block * height + thread // (n * n) < tokens:
            grad_logits[token, row, column] = grad[0] * m[0]

    return (Launch(sinkhorn_backward, lambda tokens: (-(-tokens // height), 1)),)


FORWARD = GpuKernel("sinkhorn", _forward)
BACKWARD = GpuKernel("sinkhorn_backward", _backward)
