"""The kernel of ``expand``'s gradient: a core adds up the streams of one token, in fp32."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.ascend.language as T

from mhc.backends.tilelang_ascend.tiles import DTYPES, FP32, THREADS, added, columns_of
from mhc.ops.expand import ExpandSpec


def expand_backward(spec: ExpandSpec) -> Any:
    """Return the gradient of ``expand`` as a prim_func."""
    streams, hidden, dtype, width = spec.streams, spec.hidden, DTYPES[spec.dtype], columns_of(spec.hidden)
    tokens = T.dynamic("tokens")

    @T.prim_func
    def expand_backward(
        grad_out: T.Tensor((tokens, streams, hidden), dtype), grad_x: T.Tensor((tokens, hidden), dtype)
    ):
        with T.Kernel(tokens) as token:
            grads = T.alloc_shared((streams, width), dtype)
            result = T.alloc_shared((width,), dtype)
            for block in T.serial(hidden // width):
                T.copy(grad_out[token, 0:streams, block * width : block * width + width], grads)
                with T.SimtVF(threads=THREADS):
                    for d in T.Parallel(width):
                        result[d] = T.cast(added(lambda at: T.cast(grads[at, d], FP32), streams), dtype)
                T.copy(result, grad_x[token, block * width : block * width + width])

    return expand_backward
