"""The kernel of ``mhc_post``: a core mixes one token's streams, block after block of its columns."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.ascend.language as T

from mhc.backends.tilelang_ascend.tiles import DTYPES, FP32, THREADS, added, columns_of
from mhc.ops.mhc_post import MhcPostSpec


def mhc_post(spec: MhcPostSpec) -> Any:
    """Return ``mhc_post`` as a prim_func."""
    n, hidden, dtype, width = spec.streams, spec.hidden, DTYPES[spec.dtype], columns_of(spec.hidden)
    tokens = T.dynamic("tokens")

    @T.prim_func
    def mhc_post(
        x: T.Tensor((tokens, n, hidden), dtype),
        y: T.Tensor((tokens, hidden), dtype),
        h_post: T.Tensor((tokens, n), FP32),
        h_res: T.Tensor((tokens, n * n), FP32),
        out: T.Tensor((tokens, n, hidden), dtype),
    ):
        with T.Kernel(tokens) as token:
            post = T.alloc_shared((n,), FP32)
            res = T.alloc_shared((n * n,), FP32)
            streams = T.alloc_shared((n, width), dtype)
            written = T.alloc_shared((width,), dtype)
            result = T.alloc_shared((n, width), dtype)
            T.copy(h_post[token, 0:n], post)
            T.copy(h_res[token, 0 : n * n], res)
            for block in T.serial(hidden // width):
                T.copy(x[token, 0:n, block * width : block * width + width], streams)
                T.copy(y[token, block * width : block * width + width], written)
                with T.SimtVF(threads=THREADS):
                    for i, d in T.Parallel(n, width):
                        result[i, d] = T.cast(
                            post[i] * T.cast(written[d], FP32)
                            + added(lambda at: res[i * n + at] * T.cast(streams[at, d], FP32), n),
                            dtype,
                        )
                T.copy(result, out[token, 0:n, block * width : block * width + width])

    return mhc_post
