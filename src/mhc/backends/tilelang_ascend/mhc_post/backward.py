"""The kernel of ``mhc_post``'s gradient: a core computes all gradients of one token."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.ascend.language as T

from mhc.backends.tilelang_ascend.tiles import DTYPES, FP32, THREADS, added, columns_of
from mhc.ops.mhc_post import MhcPostSpec


def mhc_post_backward(spec: MhcPostSpec) -> Any:
    """Return the gradient of ``mhc_post`` as a prim_func.

    The sums over the columns are made of ``parts`` of each: a thread has a part of one sum.
    """
    n, hidden, dtype, width = spec.streams, spec.hidden, DTYPES[spec.dtype], columns_of(spec.hidden)
    tokens, parts = T.dynamic("tokens"), 8

    @T.prim_func
    def mhc_post_backward(
        x: T.Tensor((tokens, n, hidden), dtype),
        y: T.Tensor((tokens, hidden), dtype),
        h_post: T.Tensor((tokens, n), FP32),
        h_res: T.Tensor((tokens, n * n), FP32),
        grad_out: T.Tensor((tokens, n, hidden), dtype),
        grad_x: T.Tensor((tokens, n, hidden), dtype),
        grad_y: T.Tensor((tokens, hidden), dtype),
        grad_h_post: T.Tensor((tokens, n), FP32),
        grad_h_res: T.Tensor((tokens, n * n), FP32),
    ):
        with T.Kernel(tokens) as token:
            post = T.alloc_shared((n,), FP32)
            res = T.alloc_shared((n * n,), FP32)
            streams = T.alloc_shared((n, width), dtype)
            written = T.alloc_shared((width,), dtype)
            grads = T.alloc_shared((n, width), dtype)
            to_streams = T.alloc_shared((n, width), dtype)
            to_written = T.alloc_shared((width,), dtype)
            part_of_res = T.alloc_shared((n * n, parts), FP32)
            part_of_post = T.alloc_shared((n, parts), FP32)
            to_res = T.alloc_shared((n * n,), FP32)
            to_post = T.alloc_shared((n,), FP32)
            T.copy(h_post[token, 0:n], post)
            T.copy(h_res[token, 0 : n * n], res)
            with T.SimtVF(threads=THREADS):
                for entry, part in T.Parallel(n * n, parts):
                    part_of_res[entry, part] = T.float32(0)
                for i, part in T.Parallel(n, parts):
                    part_of_post[i, part] = T.float32(0)
            for block in T.serial(hidden // width):
                T.copy(x[token, 0:n, block * width : block * width + width], streams)
                T.copy(y[token, block * width : block * width + width], written)
                T.copy(grad_out[token, 0:n, block * width : block * width + width], grads)
                with T.SimtVF(threads=THREADS):
                    for j, d in T.Parallel(n, width):
                        to_streams[j, d] = T.cast(
                            added(lambda at: res[at * n + j] * T.cast(grads[at, d], FP32), n), dtype
                        )
                    for d in T.Parallel(width):
                        to_written[d] = T.cast(added(lambda at: post[at] * T.cast(grads[at, d], FP32), n), dtype)
                with T.SimtVF(threads=THREADS):
                    acc = T.alloc_local((1,), FP32)
                    thread = T.get_thread_binding()
                    for step in T.serial(T.ceildiv(n * n * parts, THREADS)):
                        if step * THREADS + thread < n * n * parts:
                            entry, part = (step * THREADS + thread) // parts, (step * THREADS + thread) % parts
                            acc[0] = T.float32(0)
                            for c in T.serial(T.ceildiv(width, parts)):
                                if c * parts + part < width:
                                    acc[0] = acc[0] + T.cast(grads[entry // n, c * parts + part], FP32) * T.cast(
                                        streams[entry % n, c * parts + part], FP32
                                    )
                            part_of_res[entry, part] = part_of_res[entry, part] + acc[0]
                with T.SimtVF(threads=THREADS):
                    acc = T.alloc_local((1,), FP32)
                    thread = T.get_thread_binding()
                    if thread < n * parts:
                        i, part = thread // parts, thread % parts
                        acc[0] = T.float32(0)
                        for c in T.serial(T.ceildiv(width, parts)):
                            if c * parts + part < width:
                                acc[0] = acc[0] + T.cast(grads[i, c * parts + part], FP32) * T.cast(
                                    written[c * parts + part], FP32
                                )
                        part_of_post[i, part] = part_of_post[i, part] + acc[0]
                T.copy(to_streams, grad_x[token, 0:n, block * width : block * width + width])
                T.copy(to_written, grad_y[token, block * width : block * width + width])
            with T.SimtVF(threads=THREADS):
                for entry in T.Parallel(n * n):
                    to_res[entry] = added(lambda at: part_of_res[entry, at], parts)
                for i in T.Parallel(n):
                    to_post[i] = added(lambda at: part_of_post[i, at], parts)
            T.copy(to_res, grad_h_res[token, 0 : n * n])
            T.copy(to_post, grad_h_post[token, 0:n])

    return mhc_post_backward
