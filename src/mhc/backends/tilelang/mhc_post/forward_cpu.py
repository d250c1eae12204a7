"""The CPU kernel of ``mhc_post``: a loop over lanes per token."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import FP32, STORAGE, narrow, widen
from mhc.backends.tilelang.mhc_post.tensors import tensors_of
from mhc.ops.mhc_post import MhcPostSpec


def forward(spec: MhcPostSpec, lanes: int) -> Any:
    """Return ``mhc_post`` as a prim_func over x [tokens, n·hidden]."""
    streams, hidden, dtype = spec.streams, spec.hidden, spec.dtype
    _, stored = STORAGE[dtype]
    # The last vector of a stream begins early enough to end with it: some columns are computed twice, and alike.
    lanes = min(lanes, hidden)
    tensors = tensors_of(spec, stored, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_post(
        x: tensors.x,
        y: tensors.y,
        h_post: tensors.h_post,
        h_res: tensors.h_res,
        out: tensors.out,
    ):
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            xs = T.alloc_local((streams, lanes), FP32)
            ys = T.alloc_local((lanes,), FP32)
            acc = T.alloc_local((lanes,), FP32)
            for c in T.serial(T.ceildiv(hidden, lanes)):
                for v in T.serial(lanes):
                    ys[v] = widen(y[token, T.min(c * lanes, hidden - lanes) + v], dtype)
                for j in T.unroll(streams, explicit=True):
                    for v in T.serial(lanes):
                        xs[j, v] = widen(x[token, j * hidden + T.min(c * lanes, hidden - lanes) + v], dtype)
                for i in T.serial(streams):
                    for v in T.serial(lanes):
                        acc[v] = h_post[token, i] * ys[v]
                    for j in T.unroll(streams, explicit=True):
                        for v in T.serial(lanes):
                            acc[v] = acc[v] + h_res[token, i * streams + j] * xs[j, v]
                    for v in T.serial(lanes):
                        out[token, i * hidden + T.min(c * lanes, hidden - lanes) + v] = narrow(acc[v], dtype)

    return mhc_post
