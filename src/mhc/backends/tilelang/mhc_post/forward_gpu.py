"""The GPU kernel of ``mhc_post``: a block of threads per token and part of its columns."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.gpu import DTYPES, FP32, vector_of
from mhc.backends.tilelang.mhc_post.tensors import tensors_of
from mhc.ops.mhc_post import MhcPostSpec

THREADS = 128


def forward(spec: MhcPostSpec) -> Any:
    """Return ``mhc_post`` as a prim_func over x [tokens, n·hidden]: each thread has some columns of all streams."""
    streams, hidden, dtype = spec.streams, spec.hidden, DTYPES[spec.dtype]
    vector = vector_of(hidden)
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_post(
        x: tensors.x,
        y: tensors.y,
        h_post: tensors.h_post,
        h_res: tensors.h_res,
        out: tensors.out,
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
