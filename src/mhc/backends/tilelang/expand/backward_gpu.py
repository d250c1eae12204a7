"""The GPU kernel of ``expand``'s gradient: a block of threads per token and part of its columns."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.expand.tensors import tensors_of
from mhc.backends.tilelang.gpu import DTYPES, FP32, vector_of
from mhc.ops.expand import ExpandSpec

THREADS = 128


def backward(spec: ExpandSpec) -> Any:
    """Return the gradient of ``expand`` as a prim_func over grad_out [tokens, n·hidden]: a thread has some columns."""
    streams, hidden, dtype = spec.streams, spec.hidden, DTYPES[spec.dtype]
    vector = vector_of(hidden)
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens

    @T.prim_func
    def expand_backward(grad_out: tensors.grad_out, grad_x: tensors.grad_x):
        with T.Kernel(tokens, T.ceildiv(hidden, THREADS * vector), threads=THREADS) as (token, part):
            thread = T.get_thread_binding()
            raw = T.alloc_local((vector,), dtype)
            acc = T.alloc_local((vector,), FP32)
            if (part * THREADS + thread) * vector < hidden:
                for k in T.unroll(vector):
                    acc[k] = T.float32(0)
                for i in T.unroll(streams):
                    for k in T.vectorized(vector):
                        raw[k] = grad_out[token, i * hidden + (part * THREADS + thread) * vector + k]
                    for k in T.unroll(vector):
                        acc[k] = acc[k] + T.cast(raw[k], FP32)
                for k in T.unroll(vector):
                    raw[k] = T.cast(acc[k], dtype)
                for k in T.vectorized(vector):
                    grad_x[token, (part * THREADS + thread) * vector + k] = raw[k]

    return expand_backward
