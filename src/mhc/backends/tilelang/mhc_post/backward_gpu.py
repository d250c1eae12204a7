"""The GPU kernel of ``mhc_post``'s gradients: a block of threads per token."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.gpu import DTYPES, FP32, SEGMENT, add_segments, vector_of
from mhc.backends.tilelang.mhc_post.tensors import tensors_of
from mhc.ops.mhc_post import MhcPostSpec

THREADS = 128


def rows_of(streams: int) -> int:
    """Return the rows of h_res whose gradients are summed at once.

    All of them where a thread has registers, and a block shared memory, for so many sums. Otherwise x, y and grad_out
    are read again for every few rows.
    """
    return streams if streams <= 8 else 4


def make_write_back(spec: MhcPostSpec, rows: int) -> Any:
    """Return a macro: some columns of the gradient of one tensor, the sum of ``rows`` rows of grad_out by weights."""
    vector, dtype = vector_of(spec.hidden), DTYPES[spec.dtype]

    @T.macro
    def write_back(weights, first, stride, grads, acc, raw, into, token, column):
        for k in T.unroll(vector):
            acc[k] = T.float32(0)
        for i in T.unroll(rows):
            for k in T.unroll(vector):
                acc[k] = acc[k] + weights[token, first + i * stride] * grads[i, k]
        for k in T.unroll(vector):
            raw[k] = T.cast(acc[k], dtype)
        for k in T.vectorized(vector):
            into[token, column + k] = raw[k]

    return write_back


def make_read(spec: MhcPostSpec, rows: int) -> Any:
    """Return a macro: some columns of ``rows`` rows in fp32, the last row again for those beyond it."""
    streams, hidden, vector = spec.streams, spec.hidden, vector_of(spec.hidden)

    @T.macro
    def read(grad_out, grads, raw, token, first, column):
        for i in T.unroll(rows):
            for k in T.vectorized(vector):
                raw[k] = grad_out[token, T.min(first + i, streams - 1) * hidden + column + k]
            for k in T.unroll(vector):
                grads[i, k] = T.cast(raw[k], FP32)

    return read


def make_multiply(spec: MhcPostSpec, rows: int) -> Any:
    """Return a macro: read some columns of x or y, and add their products with grad_out to the sums from ``o`` on."""
    vector = vector_of(spec.hidden)

    @T.macro
    def multiply(tensor, token, column, raw, value, grads, products, o, stride):
        for k in T.vectorized(vector):
            raw[k] = tensor[token, column + k]
        for k in T.unroll(vector):
            value[k] = T.cast(raw[k], FP32)
        for i in T.unroll(rows):
            for k in T.unroll(vector):
                products[o + i * stride] = products[o + i * stride] + grads[i, k] * value[k]

    return multiply


def backward(spec: MhcPostSpec) -> Any:
    """Return the gradients of ``mhc_post`` as a prim_func over x [tokens, n·hidden]: one block per token.

    The threads' sums over the columns are added up in a fixed order.
    """
    streams, hidden, dtype = spec.streams, spec.hidden, DTYPES[spec.dtype]
    vector, rows = vector_of(hidden), rows_of(spec.streams)
    groups, fused = -(-streams // rows), rows == streams
    sums = rows * (streams + 1)  # of the rows of h_res, then of h_post
    segments = THREADS // SEGMENT
    add_up = add_segments(sums, segments, THREADS)
    read, read_all, multiply = make_read(spec, rows), make_read(spec, streams), make_multiply(spec, rows)
    write_back = make_write_back(spec, streams)
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

            if not fused:
                for step in T.serial(T.ceildiv(hidden, THREADS * vector)):
                    column = (step * THREADS + thread) * vector
                    if column < hidden:
                        read_all(grad_out, grads, raw, token, 0, column)
                        write_back(h_post, 0, 1, grads, acc, raw, grad_y, token, column)
                        for j in T.unroll(streams):
                            write_back(h_res, j, streams, grads, acc, raw, grad_x, token, j * hidden + column)
            for group in T.serial(groups):
                for o in T.unroll(sums):
                    products[o] = T.float32(0)
                for step in T.serial(T.ceildiv(hidden, THREADS * vector)):
                    column = (step * THREADS + thread) * vector
                    if column < hidden:
                        read(grad_out, grads, raw, token, group * rows, column)
                        multiply(y, token, column, raw, value, grads, products, rows * streams, 1)
                        if fused:
                            write_back(h_post, 0, 1, grads, acc, raw, grad_y, token, column)
                        for j in T.unroll(streams):
                            multiply(x, token, j * hidden + column, raw, value, grads, products, j, streams)
                            if fused:
                                write_back(h_res, j, streams, grads, acc, raw, grad_x, token, j * hidden + column)
                for o in T.unroll(sums):
                    partial[o * segments + thread // SEGMENT, thread % SEGMENT] = products[o]
                add_up(partial, segment_sum, total, 0, scalar, thread)
                T.sync_threads()
                if thread < rows * streams and group * rows * streams + thread < streams * streams:
                    grad_h_res[token, group * rows * streams + thread] = total[0, thread]
                if thread < rows and group * rows + thread < streams:
                    grad_h_post[token, group * rows + thread] = total[0, rows * streams + thread]

    return mhc_post_backward
