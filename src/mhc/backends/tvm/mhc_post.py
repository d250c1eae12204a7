"""``mhc_post`` for LLVM's CPU targets, and the way to its GPU form; tokens are free."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.cpu import Kernel
from mhc.backends.tvm.mhc_post_gpu import FORWARD
from mhc.backends.tvm.operator import Operands, Operator
from mhc.backends.tvm.vectors import Row, name_of, narrow, registers, wide
from mhc.ops.mhc_post import MhcPostInputs, MhcPostOutputs, MhcPostSpec


def _operands(inputs: MhcPostInputs, out: MhcPostOutputs) -> Operands:
    tokens = inputs.x.shape[0]
    return {
        "x": inputs.x.view(tokens, -1),
        "y": inputs.y,
        "h_post": inputs.h_post,
        "h_res": inputs.h_res,
        "out": out.out.view(tokens, -1),
    }


def _script(spec: MhcPostSpec, target: Target) -> tvm.tirx.PrimFunc:
    """One pass over a token: each vector of ``x`` and ``y`` is read once and meets every stream of the output."""
    f32, dtype, size = "float32", name_of(spec.dtype), spec.dtype.itemsize
    n, hidden = spec.streams, spec.hidden
    row = Row.of(hidden, registers(target)[0])
    lanes = row.lanes

    @T.prim_func
    def mhc_post(x_: T.handle, y_: T.handle, h_post_: T.handle, h_res_: T.handle, out_: T.handle):
        T.func_attr({"global_symbol": "mhc_post", "tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_, (tokens, n * hidden), dtype, align=size)
        y = T.match_buffer(y_, (tokens, hidden), dtype, align=size)
        h_post = T.match_buffer(h_post_, (tokens, n), f32, align=4)
        h_res = T.match_buffer(h_res_, (tokens, n, n), f32, align=4)
        out = T.match_buffer(out_, (tokens, n * hidden), dtype, align=size)

        for t in T.parallel(tokens):
            acc = T.alloc_buffer((n, lanes), f32)
            v = T.alloc_buffer((lanes,), f32)
            for d in range(row.vectors):
                for j in T.vectorized(lanes):
                    v[j] = wide(y[t, row.start(d) + j])
                for i in T.unroll(n):
                    for j in T.vectorized(lanes):
                        acc[i, j] = h_post[t, i] * v[j]
                for s in T.unroll(n):
                    for j in T.vectorized(lanes):
                        v[j] = wide(x[t, s * hidden + row.start(d) + j])
                    for i in T.unroll(n):
                        for j in T.vectorized(lanes):
                            acc[i, j] = acc[i, j] + h_res[t, i, s] * v[j]
                for i in T.unroll(n):
                    for j in T.vectorized(lanes):
                        out[t, i * hidden + row.start(d) + j] = narrow(dtype, acc[i, j])

    return mhc_post


_OPERATOR = Operator(Kernel("mhc_post", _script), FORWARD, _operands)
run, compile = _OPERATOR.run, _OPERATOR.compile
