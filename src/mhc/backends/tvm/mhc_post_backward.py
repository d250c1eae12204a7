"""Gradients of ``mhc_post`` for LLVM's CPU targets, and the way to its GPU form; tokens are free."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.cpu import Kernel
from mhc.backends.tvm.mhc_post_gpu import BACKWARD
from mhc.backends.tvm.operator import Operands, Operator
from mhc.backends.tvm.vectors import STACK_BYTES, Row, name_of, narrow, registers, wide
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostSpec


def _operands(inputs: MhcPostBackwardInputs, out: MhcPostGrads) -> Operands:
    tokens = inputs.x.shape[0]
    return {
        "x": inputs.x.view(tokens, -1),
        "y": inputs.y,
        "h_post": inputs.h_post,
        "h_res": inputs.h_res,
        "grad_out": inputs.grad_out.view(tokens, -1),
        "grad_x": out.x.view(tokens, -1),
        "grad_y": out.y,
        "grad_h_post": out.h_post,
        "grad_h_res": out.h_res,
    }


def _script(spec: MhcPostSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Two passes over a token: the gradients of ``x`` and ``y``, then those of the coefficients.

    The second, from the cache, makes a few rows of ``h_res`` at a time, as many as the vector registers hold.
    """
    f32, dtype, size = "float32", name_of(spec.dtype), spec.dtype.itemsize
    n, hidden = spec.streams, spec.hidden
    widest, held = registers(target)
    row = Row.of(hidden, widest)
    lanes = row.lanes
    # Beside the sums of `rows` streams of the output the registers hold the gradients of these and one operand.
    rows = max(
        rows
        for rows in range(1, n + 1)
        if rows == 1 or (n % rows == 0 and rows * (n + 2) < held and rows * n * lanes * 4 <= STACK_BYTES)
    )

    @T.prim_func
    def mhc_post_backward(
        x_: T.handle,
        y_: T.handle,
        h_post_: T.handle,
        h_res_: T.handle,
        grad_out_: T.handle,
        grad_x_: T.handle,
        grad_y_: T.handle,
        grad_h_post_: T.handle,
        grad_h_res_: T.handle,
    ):
        T.func_attr({"global_symbol": "mhc_post_backward", "tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_, (tokens, n * hidden), dtype, align=size)
        y = T.match_buffer(y_, (tokens, hidden), dtype, align=size)
        h_post = T.match_buffer(h_post_, (tokens, n), f32, align=4)
        h_res = T.match_buffer(h_res_, (tokens, n, n), f32, align=4)
        grad_out = T.match_buffer(grad_out_, (tokens, n * hidden), dtype, align=size)
        grad_x = T.match_buffer(grad_x_, (tokens, n * hidden), dtype, align=size)
        grad_y = T.match_buffer(grad_y_, (tokens, hidden), dtype, align=size)
        grad_h_post = T.match_buffer(grad_h_post_, (tokens, n), f32, align=4)
        grad_h_res = T.match_buffer(grad_h_res_, (tokens, n, n), f32, align=4)

        for t in T.parallel(tokens):
            g = T.alloc_buffer((n, lanes), f32)
            v = T.alloc_buffer((lanes,), f32)
            to_post = T.alloc_buffer((rows, lanes), f32)
            to_res = T.alloc_buffer((rows, n, lanes), f32)
            lane_sum = T.alloc_buffer((1,), f32)

            for d in range(row.vectors):
                for i in T.unroll(n):
                    for j in T.vectorized(lanes):
                        g[i, j] = wide(grad_out[t, i * hidden + row.start(d) + j])
                for j in T.vectorized(lanes):
                    v[j] = T.float32(0)
                for i in T.unroll(n):
                    for j in T.vectorized(lanes):
                        v[j] = v[j] + h_post[t, i] * g[i, j]
                for j in T.vectorized(lanes):
                    grad_y[t, row.start(d) + j] = narrow(dtype, v[j])
                for s in T.unroll(n):
                    for j in T.vectorized(lanes):
                        v[j] = T.float32(0)
                    for i in T.unroll(n):
                        for j in T.vectorized(lanes):
                            v[j] = v[j] + h_res[t, i, s] * g[i, j]
                    for j in T.vectorized(lanes):
                        grad_x[t, s * hidden + row.start(d) + j] = narrow(dtype, v[j])

            for b in range(n // rows):
                for p in T.unroll(rows):
                    for j in T.vectorized(lanes):
                        to_post[p, j] = T.float32(0)
                    for s in T.unroll(n):
                        for j in T.vectorized(lanes):
                            to_res[p, s, j] = T.float32(0)
                for d in range(row.vectors):
                    for p in T.unroll(rows):
                        for j in T.vectorized(lanes):
                            g[p, j] = row.once(d, j, wide(grad_out[t, (b * rows + p) * hidden + row.start(d) + j]))
                    for j in T.vectorized(lanes):
                        v[j] = row.once(d, j, wide(y[t, row.start(d) + j]))
                    for p in T.unroll(rows):
                        for j in T.vectorized(lanes):
                            to_post[p, j] = to_post[p, j] + g[p, j] * v[j]
                    for s in T.unroll(n):
                        for j in T.vectorized(lanes):
                            v[j] = row.once(d, j, wide(x[t, s * hidden + row.start(d) + j]))
                        for p in T.unroll(rows):
                            for j in T.vectorized(lanes):
                                to_res[p, s, j] = to_res[p, s, j] + g[p, j] * v[j]
                for p in T.unroll(rows):
                    lane_sum[0] = T.float32(0)
                    for j in T.unroll(lanes):
                        lane_sum[0] = lane_sum[0] + to_post[p, j]
                    grad_h_post[t, b * rows + p] = lane_sum[0]
                    for s in T.unroll(n):
                        lane_sum[0] = T.float32(0)
                        for j in T.unroll(lanes):
                            lane_sum[0] = lane_sum[0] + to_res[p, s, j]
                        grad_h_res[t, b * rows + p, s] = lane_sum[0]

    return mhc_post_backward


_OPERATOR = Operator(Kernel("mhc_post_backward", _script), BACKWARD, _operands)
run, compile = _OPERATOR.run, _OPERATOR.compile
