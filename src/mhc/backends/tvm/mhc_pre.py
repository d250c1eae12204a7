"""``mhc_pre`` for LLVM's CPU targets, and the way to its GPU form; tokens are free."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.cpu import Kernel
from mhc.backends.tvm.mhc_pre_gpu import FORWARD
from mhc.backends.tvm.operator import Operands, Operator
from mhc.backends.tvm.projection import forward_operands, projection, tile
from mhc.backends.tvm.vectors import Row, name_of, narrow, wide
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec


def _operands(inputs: MhcPreInputs, out: MhcPreOutputs) -> Operands:
    tokens = inputs.x.shape[0]
    return {**forward_operands(inputs), "h_in": out.h_in, "h_post": out.h_post, "h_res": out.h_res.view(tokens, -1)}


def _script(spec: MhcPreSpec, target: Target) -> tvm.tirx.PrimFunc:
    """A block of tokens is projected, then read a second time, from the cache, for ``h_in``.

    Without gamma the fifth argument is not looked at.
    """
    f32, dtype, size = "float32", name_of(spec.dtype), spec.dtype.itemsize
    n, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    blocking = tile(spec, target)
    height, lanes = blocking.tokens, blocking.lanes
    project = projection(spec, blocking)
    row = Row.of(hidden, lanes)

    # Tensors are asked for no more than their elements' alignment: views into larger ones are taken as they are.
    @T.prim_func
    def mhc_pre(
        x_: T.handle,
        phi_: T.handle,
        alpha_: T.handle,
        bias_: T.handle,
        gamma_: T.handle,
        h_in_: T.handle,
        h_post_: T.handle,
        h_res_: T.handle,
    ):
        T.func_attr({"global_symbol": "mhc_pre", "tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_, (tokens, width), dtype, align=size)
        phi = T.match_buffer(phi_, (mixes, width), f32, align=4)
        alpha = T.match_buffer(alpha_, (3,), f32, align=4)
        bias = T.match_buffer(bias_, (mixes,), f32, align=4)
        if spec.gamma:
            gamma = T.match_buffer(gamma_, (width,), f32, align=4)
        h_in = T.match_buffer(h_in_, (tokens, hidden), dtype, align=size)
        h_post = T.match_buffer(h_post_, (tokens, n), f32, align=4)
        h_res = T.match_buffer(h_res_, (tokens, n * n), f32, align=4)

        for block in T.parallel(T.truncdiv(tokens + (height - 1), T.int64(height))):
            total = T.alloc_buffer((height, mixes, lanes), f32)
            square = T.alloc_buffer((height, lanes), f32)
            mix = T.alloc_buffer((mixes,), f32)
            pre = T.alloc_buffer((n,), f32)
            read = T.alloc_buffer((row.lanes,), f32)
            r = T.alloc_buffer((1,), f32)

            if spec.gamma:
                project(x, phi, gamma, tokens, block, total, square)
            else:
                project(x, phi, phi, tokens, block, total, square)

            for t in range(T.min(T.int64(height), tokens - block * height)):
                r[0] = T.float32(0)
                for j in T.unroll(lanes):
                    r[0] = r[0] + square[t, j]
                r[0] = T.rsqrt(r[0] / T.float32(width) + T.float32(spec.norm_eps))
                for o in range(mixes):
                    mix[o] = T.float32(0)
                    for j in T.unroll(lanes):
                        mix[o] = mix[o] + total[t, o, j]
                    mix[o] = mix[o] * r[0]
                for i in range(n):
                    pre[i] = T.sigmoid(alpha[0] * mix[i] + bias[i]) + T.float32(spec.pre_eps)
                    h_post[block * height + t, i] = T.float32(2) * T.sigmoid(alpha[1] * mix[n + i] + bias[n + i])
                for i in range(n * n):
                    h_res[block * height + t, i] = alpha[2] * mix[2 * n + i] + bias[2 * n + i]
                for d in range(row.vectors):
                    for j in T.vectorized(row.lanes):
                        read[j] = T.float32(0)
                    for i in T.unroll(n):
                        for j in T.vectorized(row.lanes):
                            read[j] = read[j] + pre[i] * wide(x[block * height + t, i * hidden + row.start(d) + j])
                    for j in T.vectorized(row.lanes):
                        h_in[block * height + t, row.start(d) + j] = narrow(dtype, read[j])

    return mhc_pre


_OPERATOR = Operator(Kernel("mhc_pre", _script), FORWARD, _operands)
run, compile = _OPERATOR.run, _OPERATOR.compile
