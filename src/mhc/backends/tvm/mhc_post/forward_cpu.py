"""The script of ``mhc_post`` for LLVM's CPU targets."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.mhc_post.tensors import tensors_of
from mhc.backends.tvm.stores import stores
from mhc.backends.tvm.vectors import Row, name_of, registers, wide
from mhc.ops.mhc_post import MhcPostSpec


def forward(spec: MhcPostSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Make one pass over a token: each vector of ``x`` and ``y`` is read once and meets every stream of the output."""
    f32, dtype = "float32", name_of(spec.dtype)
    streams, hidden = spec.streams, spec.hidden
    row = Row.of(hidden, registers(target)[0])
    large = stores(row, spec.dtype, target)
    lanes = row.lanes
    tensors = tensors_of(spec, dtype)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_post(x: tensors.x, y: tensors.y, h_post: tensors.h_post, h_res: tensors.h_res, out: tensors.out):
        T.func_attr({"global_symbol": "mhc_post", "tirx.noalias": True})
        T.attr(0, "pragma_import_llvm", large.code)
        for t in T.parallel(tokens):
            past: T.let = large.past(tokens * (streams * hidden))
            acc = T.alloc_buffer((streams, lanes), f32)
            v = T.alloc_buffer((lanes,), f32)
            for d in range(row.vectors):
                for j in T.vectorized(lanes):
                    v[j] = wide(y[t, row.start(d) + j])
                for i in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        acc[i, j] = h_post[t, i] * v[j]
                for s in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        v[j] = wide(x[t, s * hidden + row.start(d) + j])
                    for i in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            acc[i, j] = acc[i, j] + h_res[t, i, s] * v[j]
                for i in T.unroll(streams):
                    large.put(out, t, i * hidden + row.start(d), acc, i, past)
            large.end(past)

    return mhc_post
