"""The GPU kernel of ``mhc_post``'s gradients: a block of threads per token."""

# No postponed annotations here: TileLang reads those of a kernel as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.gpu import DTYPES, FP32, SEGMENT, add_segments, vector_of
from mhc.backends.tilelang.mhc_post.tensors import tensors_of
from mhc.ops.mhc_post import MhcPostSpec

THREADS = 128


def backward(spec: MhcPostSpec) -> Any:
    """Return the gradients of ``mhc_post`` as a prim_func over x [tokens, n·hidden]: one block per token.

    The sums over the columns are those of the threads, added up in a fixed order.
    """
    streams, hidden, dtype = spec.streams, spec.hidden, DTYPES[spec.dtype]
    vector = vector_of(hidden)
    sums = streams * (streams + 1)  # of h_res, then of h_post
    segments = THREADS // SEGMENT
    add_up = add_segments(sums, segments, THREADS)
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_post_backward(
        x: tensors.x,
        y: tensors.y,
        h_post: tensors.h_post,
        h_res: tensors.h_res,
        grad_out: tensors.grad_out,
        grad_x: tensors.grad_x,
        grad_y: tensors.grad_y,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
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
