"""The equations of ``mhc_post``, in no order."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

import tvm
from tvm.script import tirx as T

from mhc.backends.tvm.mhc_post.tensors import tensors_of
from mhc.backends.tvm.vectors import name_of, narrow, wide
from mhc.ops.mhc_post import MhcPostSpec


def forward(spec: MhcPostSpec, tokens: int) -> tvm.tirx.PrimFunc:
    """Mix the streams, and add the layer's output to each."""
    f32, dtype = "float32", name_of(spec.dtype)
    streams, hidden = spec.streams, spec.hidden
    tensors = tensors_of(spec, dtype, tokens)

    @T.prim_func(s_tir=True)
    def mhc_post(x: tensors.x, y: tensors.y, h_post: tensors.h_post, h_res: tensors.h_res, out: tensors.out):
        T.func_attr({"global_symbol": "mhc_post", "tirx.noalias": True})
        mixed = T.sblock_alloc_buffer((tokens, streams, hidden), f32)
        for t, i, d, s in T.grid(tokens, streams, hidden, streams):
            with T.sblock("mixed"):
                vt, vi, vd, vs = T.axis.remap("SSSR", [t, i, d, s])
                with T.init():
                    mixed[vt, vi, vd] = T.float32(0)
                mixed[vt, vi, vd] = mixed[vt, vi, vd] + h_res[vt, vi, vs] * wide(x[vt, vs * hidden + vd])
        for t, i, d in T.grid(tokens, streams, hidden):
            with T.sblock("out"):
                vt, vi, vd = T.axis.remap("SSS", [t, i, d])
                out[vt, vi * hidden + vd] = narrow(dtype, mixed[vt, vi, vd] + h_post[vt, vi] * wide(y[vt, vd]))

    return mhc_post
