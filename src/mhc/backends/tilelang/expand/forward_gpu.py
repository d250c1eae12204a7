"""The GPU kernel of ``expand``: a block of threads per token and part of its columns."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.expand.tensors import tensors_of
from mhc.backends.tilelang.gpu import DTYPES, vector_of
from mhc.ops.expand import ExpandSpec

THREADS = 128


def forward(spec: ExpandSpec) -> Any:
    """Return ``expand`` as a prim_func over out [tokens, n·hidden]: each thread has some columns of all streams."""
    streams, hidden, dtype = spec.streams, spec.hidden, DTYPES[spec.dtype]
    vector = vector_of(hidden)
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens

    @T.prim_func
    def expand(x: tensors.x, out: tensors.out):
        with T.Kernel(tokens, T.ceildiv(hidden, THREADS * vector), threads=THREADS) as (token, part):
            thread = T.get_thread_binding()
            raw = T.alloc_local((vector,), dtype)
            if (part * THREADS + thread) * vector < hidden:
                for k in T.vectorized(vector):
                    raw[k] = x[token, (part * THREADS + thread) * vector + k]
                for i in T.unroll(streams):
                    for k in T.vectorized(vector):
                        out[token, i * hidden + (part * THREADS + thread) * vector + k] = raw[k]

    return expand
