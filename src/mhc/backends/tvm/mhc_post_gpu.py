"""``mhc_post`` and its gradients for GPUs. A block of threads has one token; its threads share out the columns."""

from __future__ import annotations

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, GpuKernel, Launch, add_up
from mhc.ops.mhc_post import MhcPostSpec


def _forward(spec: MhcPostSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """The token's coefficients wait in shared memory; each element of ``x`` and ``y`` is read once."""
    f32, dtype, size = "float32", dialect.stored(spec.dtype), spec.dtype.itemsize
    n, hidden, each = spec.streams, spec.hidden, dialect.each

    @T.prim_func
    def mhc_post(x_: T.handle, y_: T.handle, h_post_: T.handle, h_res_: T.handle, out_: T.handle):
        T.func_attr({"global_symbol": "mhc_post", "tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_, (tokens, n * hidden), dtype, align=size)
        y = T.match_buffer(y_, (tokens, hidden), dtype, align=size)
        h_post = T.match_buffer(h_post_, (tokens, n), f32, align=4)
        h_res = T.match_buffer(h_res_, (tokens, n, n), f32, align=4)
        out = T.match_buffer(out_, (tokens, n * hidden), dtype, align=size)

        token = T.launch_thread("blockIdx.x", tokens)
        thread = T.launch_thread("threadIdx.x", THREADS)
        mix = T.alloc_buffer((n, n + 1), f32, scope="shared")
        v = T.alloc_buffer((n + 1,), f32, scope="local")
        acc = T.alloc_buffer((1,), f32, scope="local")

        if thread < n:
            for s in each(n):
                mix[thread, s] = h_res[token, thread, s]
            mix[thread, n] = h_post[token, thread]
        T.tvm_storage_sync("shared")
        for k in range(-(-hidden // THREADS)):
            if k * THREADS + thread < hidden:
                for s in each(n):
                    v[s] = dialect.wide(spec.dtype, x[token, s * hidden + k * THREADS + thread])
                v[n] = dialect.wide(spec.dtype, y[token, k * THREADS + thread])
                for i in each(n):
                    acc[0] = mix[i, n] * v[n]
                    for s in each(n):
                        acc[0] = acc[0] + mix[i, s] * v[s]
                    out[token, i * hidden + k * THREADS + thread] = dialect.narrow(spec.dtype, acc[0])

    return (Launch(mhc_post, lambda tokens: (tokens, 1)),)


def _backward(spec: MhcPostSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Columns of the gradients of ``x`` and ``y``; those of the coefficients are sums over all of the token's threads.

    In the sums row ``i`` has ``h_res[i, :]``, and last ``h_post[i]``.
    """
    f32, dtype, size = "float32", dialect.stored(spec.dtype), spec.dtype.itemsize
    n, hidden, each = spec.streams, spec.hidden, dialect.each
    rows = n * (n + 1)
    add = add_up(dialect, 1, rows)

    @T.prim_func
    def mhc_post_backward(
        x_: T.handle,
        y_: T.handle,
        h_post_: T.handle,
        h_res_: T.handle,
        grad_out_: T.handle,
        grad_x_: T.handle,
        grad_y_: T.handle,
        grad_h_post_: T.handle,
        grad_h_res_: T.handle,
    ):
        T.func_attr({"global_symbol": "mhc_post_backward", "tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_, (tokens, n * hidden), dtype, align=size)
        y = T.match_buffer(y_, (tokens, hidden), dtype, align=size)
        h_post = T.match_buffer(h_post_, (tokens, n), f32, align=4)
        h_res = T.match_buffer(h_res_, (tokens, n, n), f32, align=4)
        grad_out = T.match_buffer(grad_out_, (tokens, n * hidden), dtype, align=size)
        grad_x = T.match_buffer(grad_x_, (tokens, n * hidden), dtype, align=size)
        grad_y = T.match_buffer(grad_y_, (tokens, hidden), dtype, align=size)
        grad_h_post = T.match_buffer(grad_h_post_, (tokens, n), f32, align=4)
        grad_h_res = T.match_buffer(grad_h_res_, (tokens, n, n), f32, align=4)

        token = T.launch_thread("blockIdx.x", tokens)
        thread = T.launch_thread("threadIdx.x", THREADS)
        mix = T.alloc_buffer((n, n + 1), f32, scope="shared")
        tree = T.alloc_buffer((rows, THREADS // 2), f32, scope="shared")
        sums = T.alloc_buffer((1, rows), f32, scope="shared")
        g = T.alloc_buffer((n,), f32, scope="local")
        v = T.alloc_buffer((1,), f32, scope="local")
        to_v = T.alloc_buffer((1,), f32, scope="local")
        acc = T.alloc_buffer((1, rows), f32, scope="local")

        if thread < n:
            for s in each(n):
                mix[thread, s] = h_res[token, thread, s]
            mix[thread, n] = h_post[token, thread]
        T.tvm_storage_sync("shared")
        for o in each(rows):
            acc[0, o] = T.float32(0)
        for k in range(-(-hidden // THREADS)):
            if k * THREADS + thread < hidden:
                for i in each(n):
                    g[i] = dialect.wide(spec.dtype, grad_out[token, i * hidden + k * THREADS + thread])
                for s in each(n):
                    v[0] = dialect.wide(spec.dtype, x[token, s * hidden + k * THREADS + thread])
                    to_v[0] = T.float32(0)
                    for i in each(n):
                        acc[0, i * (n + 1) + s] = acc[0, i * (n + 1) + s] + g[i] * v[0]
                        to_v[0] = to_v[0] + mix[i, s] * g[i]
                    grad_x[token, s * hidden + k * THREADS + thread] = dialect.narrow(spec.dtype, to_v[0])
                v[0] = dialect.wide(spec.dtype, y[token, k * THREADS + thread])
                to_v[0] = T.float32(0)
                for i in each(n):
                    acc[0, i * (n + 1) + n] = acc[0, i * (n + 1) + n] + g[i] * v[0]
                    to_v[0] = to_v[0] + mix[i, n] * g[i]
                grad_y[token, k * THREADS + thread] = dialect.narrow(spec.dtype, to_v[0])
        add(acc, tree, sums, thread)
        if thread < n:
            for s in each(n):
                grad_h_res[token, thread, s] = sums[0, thread * (n + 1) + s]
            grad_h_post[token, thread] = sums[0, thread * (n + 1) + n]

    return (Launch(mhc_post_backward, lambda tokens: (tokens, 1)),)


FORWARD = GpuKernel("mhc_post", _forward)
BACKWARD = GpuKernel("mhc_post_backward", _backward)
