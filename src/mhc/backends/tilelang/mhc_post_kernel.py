"""The kernels of ``mhc_post`` and of its gradients: a block of a GPU's threads, or a loop over lanes, per token."""

# No postponed annotations here: TileLang reads those of a kernel as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as C
from mhc.backends.tilelang.cpu_kernel import STORAGE, narrow, widen
from mhc.backends.tilelang.gpu_kernel import DTYPES, FP32, SEGMENT, add_segments, vector_of
from mhc.ops.mhc_post import MhcPostSpec

THREADS = 128


def gpu_forward(spec: MhcPostSpec) -> Any:
    """``mhc_post`` as a prim_func over x [tokens, n·hidden]: each thread has some columns of all streams."""
    streams, hidden, dtype = spec.streams, spec.hidden, DTYPES[spec.dtype]
    vector = vector_of(hidden)
    tokens = T.dynamic("tokens")

    @T.prim_func
    def mhc_post(
        x: T.Tensor((tokens, streams * hidden), dtype),
        y: T.Tensor((tokens, hidden), dtype),
        h_post: T.Tensor((tokens, streams), FP32),
        h_res: T.Tensor((tokens, streams * streams), FP32),
        out: T.Tensor((tokens, streams * hidden), dtype),
    ):
        with T.Kernel(tokens, T.ceildiv(hidden, THREADS * vector), threads=THREADS) as (token, part):
            thread = T.get_thread_binding()
            raw = T.alloc_local((vector,), dtype)
            xs = T.alloc_local((streams, vector), FP32)
            ys = T.alloc_local((vector,), FP32)
            acc = T.alloc_local((vector,), FP32)
            if (part * THREADS + thread) * vector < hidden:
                for k in T.vectorized(vector):
                    raw[k] = y[token, (part * THREADS + thread) * vector + k]
                for k in T.unroll(vector):
                    ys[k] = T.cast(raw[k], FP32)
                for j in T.unroll(streams):
                    for k in T.vectorized(vector):
                        raw[k] = x[token, j * hidden + (part * THREADS + thread) * vector + k]
                    for k in T.unroll(vector):
                        xs[j, k] = T.cast(raw[k], FP32)
                for i in T.unroll(streams):
                    for k in T.unroll(vector):
                        acc[k] = h_post[token, i] * ys[k]
                    for j in T.unroll(streams):
                        for k in T.unroll(vector):
                            acc[k] = acc[k] + h_res[token, i * streams + j] * xs[j, k]
                    for k in T.unroll(vector):
                        raw[k] = T.cast(acc[k], dtype)
                    for k in T.vectorized(vector):
                        out[token, i * hidden + (part * THREADS + thread) * vector + k] = raw[k]

    return mhc_post


def cpu_forward(spec: MhcPostSpec, lanes: int) -> Any:
    """``mhc_post`` as a prim_func over x [tokens, n·hidden]."""
    streams, hidden, dtype = spec.streams, spec.hidden, spec.dtype
    _, stored = STORAGE[dtype]
    # The last vector of a stream begins early enough to end with it: some columns are computed twice, and alike.
    lanes = min(lanes, hidden)
    tokens = C.dynamic("tokens")

    @C.prim_func
    def mhc_post(
        x: C.Tensor((tokens, streams * hidden), stored),
        y: C.Tensor((tokens, hidden), stored),
        h_post: C.Tensor((tokens, streams), FP32),
        h_res: C.Tensor((tokens, streams * streams), FP32),
        out: C.Tensor((tokens, streams * hidden), stored),
    ):
        with C.Kernel(tokens, **CPU_LAUNCH) as token:
            xs = C.alloc_local((streams, lanes), FP32)
            ys = C.alloc_local((lanes,), FP32)
            acc = C.alloc_local((lanes,), FP32)
            for c in C.serial(C.ceildiv(hidden, lanes)):
                for v in C.serial(lanes):
                    ys[v] = widen(y[token, C.min(c * lanes, hidden - lanes) + v], dtype)
                for j in C.unroll(streams, explicit=True):
                    for v in C.serial(lanes):
                        xs[j, v] = widen(x[token, j * hidden + C.min(c * lanes, hidden - lanes) + v], dtype)
                for i in C.serial(streams):
                    for v in C.serial(lanes):
                        acc[v] = h_post[token, i] * ys[v]
                    for j in C.unroll(streams, explicit=True):
                        for v in C.serial(lanes):
                            acc[v] = acc[v] + h_res[token, i * streams + j] * xs[j, v]
                    for v in C.serial(lanes):
                        out[token, i * hidden + C.min(c * lanes, hidden - lanes) + v] = narrow(acc[v], dtype)

    return mhc_post


def gpu_backward(spec: MhcPostSpec) -> Any:
    """The gradients of ``mhc_post`` as a prim_func over x [tokens, n·hidden]: one block per token.

    The sums over the columns are those of the threads, added up in a fixed order.
    """
    streams, hidden, dtype = spec.streams, spec.hidden, DTYPES[spec.dtype]
    vector = vector_of(hidden)
    sums = streams * (streams + 1)  # of h_res, then of h_post
    segments = THREADS // SEGMENT
    add_up = add_segments(sums, segments, THREADS)
    tokens = T.dynamic("tokens")

    @T.prim_func
    def mhc_post_backward(
        x: T.Tensor((tokens, streams * hidden), dtype),
        y: T.Tensor((tokens, hidden), dtype),
        h_post: T.Tensor((tokens, streams), FP32),
        h_res: T.Tensor((tokens, streams * streams), FP32),
        grad_out: T.Tensor((tokens, streams * hidden), dtype),
        grad_x: T.Tensor((tokens, streams * hidden), dtype),
        grad_y: T.Tensor((tokens, hidden), dtype),
        grad_h_post: T.Tensor((tokens, streams), FP32),
        grad_h_res: T.Tensor((tokens, streams * streams), FP32),
    ):
        with T.Kernel(tokens, threads=THREADS) as token:
            thread = T.get_thread_binding()
            partial = T.alloc_shared((sums * segments, SEGMENT + 1), FP32, scope="shared")
            segment_sum = T.alloc_shared((sums * segments,), FP32, scope="shared")
            total = T.alloc_shared((1, sums), FP32, scope="shared")
            raw = T.alloc_local((vector,), dtype)
            grads = T.alloc_local((streams, vector), FP32)
            value = T.alloc_local((vector,), FP32)
            acc = T.alloc_local((vector,), FP32)
            products = T.alloc_local((sums,), FP32)
            scalar = T.alloc_local((1,), FP32)

            for o in T.unroll(sums):
                products[o] = T.float32(0)
            for step in T.serial(T.ceildiv(hidden, THREADS * vector)):
                if (step * THREADS + thread) * vector < hidden:
                    for i in T.unroll(streams):
                        for k in T.vectorized(vector):
                            raw[k] = grad_out[token, i * hidden + (step * THREADS + thread) * vector + k]
                        for k in T.unroll(vector):
                            grads[i, k] = T.cast(raw[k], FP32)
                    for k in T.vectorized(vector):
                        raw[k] = y[token, (step * THREADS + thread) * vector + k]
                    for k in T.unroll(vector):
                        value[k] = T.cast(raw[k], FP32)
                        acc[k] = T.float32(0)
                    for i in T.unroll(streams):
                        for k in T.unroll(vector):
                            acc[k] = acc[k] + h_post[token, i] * grads[i, k]
                            products[streams * streams + i] = products[streams * streams + i] + grads[i, k] * value[k]
                    for k in T.unroll(vector):
                        raw[k] = T.cast(acc[k], dtype)
                    for k in T.vectorized(vector):
                        grad_y[token, (step * THREADS + thread) * vector + k] = raw[k]
                    for j in T.unroll(streams):
                        for k in T.vectorized(vector):
                            raw[k] = x[token, j * hidden + (step * THREADS + thread) * vector + k]
                        for k in T.unroll(vector):
                            value[k] = T.cast(raw[k], FP32)
                            acc[k] = T.float32(0)
                        for i in T.unroll(streams):
                            for k in T.unroll(vector):
                                acc[k] = acc[k] + h_res[token, i * streams + j] * grads[i, k]
                                products[i * streams + j] = products[i * streams + j] + grads[i, k] * value[k]
                        for k in T.unroll(vector):
                            raw[k] = T.cast(acc[k], dtype)
                        for k in T.vectorized(vector):
                            grad_x[token, j * hidden + (step * THREADS + thread) * vector + k] = raw[k]

            for o in T.unroll(sums):
                partial[o * segments + thread // SEGMENT, thread % SEGMENT] = products[o]
            add_up(partial, segment_sum, total, 0, scalar, thread)
            T.sync_threads()
            if thread < streams * streams:
                grad_h_res[token, thread] = total[0, thread]
            if thread < streams:
                grad_h_post[token, thread] = total[0, streams * streams + thread]

    return mhc_post_backward


def cpu_backward(spec: MhcPostSpec, lanes: int) -> Any:
    """The gradients of ``mhc_post`` as a prim_func over x [tokens, n·hidden]."""
    streams, hidden, dtype = spec.streams, spec.hidden, spec.dtype
    _, stored = STORAGE[dtype]
    lanes = min(lanes, hidden)
    sums = streams * (streams + 1)  # of h_res, then of h_post
    tokens = C.dynamic("tokens")

    @C.prim_func
    def mhc_post_backward(
        x: C.Tensor((tokens, streams * hidden), stored),
        y: C.Tensor((tokens, hidden), stored),
        h_post: C.Tensor((tokens, streams), FP32),
        h_res: C.Tensor((tokens, streams * streams), FP32),
        grad_out: C.Tensor((tokens, streams * hidden), stored),
        grad_x: C.Tensor((tokens, streams * hidden), stored),
        grad_y: C.Tensor((tokens, hidden), stored),
        grad_h_post: C.Tensor((tokens, streams), FP32),
        grad_h_res: C.Tensor((tokens, streams * streams), FP32),
    ):
        with C.Kernel(tokens, **CPU_LAUNCH) as token:
            grads = C.alloc_local((streams, lanes), FP32)
            value = C.alloc_local((lanes,), FP32)
            acc = C.alloc_local((lanes,), FP32)
            products = C.alloc_local((sums, lanes), FP32)
            once = C.alloc_local((lanes,), FP32)
            scalar = C.alloc_local((1,), FP32)

            for o in C.serial(sums):
                for v in C.serial(lanes):
                    products[o, v] = C.float32(0)
            for c in C.serial(C.ceildiv(hidden, lanes)):
                # The last vector begins early enough to end with the stream: what it shares with the one before it is
                # computed twice and alike, but must enter the sums once.
                for v in C.serial(lanes):
                    once[v] = C.if_then_else(
                        C.min(c * lanes, hidden - lanes) + v >= c * lanes, C.float32(1), C.float32(0)
                    )
                for i in C.serial(streams):
                    for v in C.serial(lanes):
                        grads[i, v] = widen(grad_out[token, i * hidden + C.min(c * lanes, hidden - lanes) + v], dtype)
                for v in C.serial(lanes):
                    value[v] = widen(y[token, C.min(c * lanes, hidden - lanes) + v], dtype)
                    acc[v] = C.float32(0)
                for i in C.serial(streams):
                    for v in C.serial(lanes):
                        acc[v] = acc[v] + h_post[token, i] * grads[i, v]
                for v in C.serial(lanes):
                    grad_y[token, C.min(c * lanes, hidden - lanes) + v] = narrow(acc[v], dtype)
                for i in C.serial(streams):
                    for v in C.serial(lanes):
                        products[streams * streams + i, v] = products[streams * streams + i, v] + C.if_then_else(
                            once[v] > C.float32(0), grads[i, v] * value[v], C.float32(0)
                        )
                for j in C.serial(streams):
                    for v in C.serial(lanes):
                        value[v] = widen(x[token, j * hidden + C.min(c * lanes, hidden - lanes) + v], dtype)
                        acc[v] = C.float32(0)
                    for i in C.serial(streams):
                        for v in C.serial(lanes):
                            acc[v] = acc[v] + h_res[token, i * streams + j] * grads[i, v]
                    for v in C.serial(lanes):
                        grad_x[token, j * hidden + C.min(c * lanes, hidden - lanes) + v] = narrow(acc[v], dtype)
                    for i in C.serial(streams):
                        for v in C.serial(lanes):
                            products[i * streams + j, v] = products[i * streams + j, v] + C.if_then_else(
                                once[v] > C.float32(0), grads[i, v] * value[v], C.float32(0)
                            )

            for o in C.serial(sums):
                scalar[0] = C.float32(0)
                for v in C.serial(lanes):
                    scalar[0] = scalar[0] + products[o, v]
                if o < streams * streams:
                    grad_h_res[token, o] = scalar[0]
                else:
                    grad_h_post[token, o - streams * streams] = scalar[0]

    return mhc_post_backward
