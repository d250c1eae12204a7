"""The script of ``mhc_post``'s gradients for LLVM's CPU targets."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.mhc_post.tensors import tensors_of
from mhc.backends.tvm.stores import stores
from mhc.backends.tvm.vectors import STACK_BYTES, Row, name_of, narrow, registers, wide
from mhc.ops.mhc_post import MhcPostSpec


def backward(spec: MhcPostSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Make two passes over a token: the gradients of ``x`` and ``y``, then the gradients of the coefficients.

    The second, from the cache, makes a few rows of ``h_res`` at a time, as many as the vector registers hold.
    """
    f32, dtype = "float32", name_of(spec.dtype)
    streams, hidden = spec.streams, spec.hidden
    widest, held = registers(target)
    row = Row.of(hidden, widest)
    large = stores(row, spec.dtype, target)
    lanes = row.lanes
    # Registers hold the sums of `rows` streams of the output, and also the gradients of these and one operand.
    rows = max(
        rows
        for rows in range(1, streams + 1)
        if rows == 1
        or (streams % rows == 0 and rows * (streams + 2) < held and rows * streams * lanes * 4 < STACK_BYTES)
    )
    tensors = tensors_of(spec, dtype)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_post_backward(
        x: tensors.x,
        y: tensors.y,
        h_post: tensors.h_post,
        h_res: tensors.h_res,
        grad_out: tensors.grad_out,
        grad_x: tensors.grad_x,
        grad_y: tensors.grad_y,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
    ):
        T.func_attr({"global_symbol": "mhc_post_backward", "tirx.noalias": True})
        T.attr(0, "pragma_import_llvm", large.code)
        for t in T.parallel(tokens):
            past: T.let = large.past(tokens * (streams * hidden))
            g = T.alloc_buffer((streams, lanes), f32)
            v = T.alloc_buffer((lanes,), f32)
            dx = T.alloc_buffer((1, lanes), f32)
            to_post = T.alloc_buffer((rows, lanes), f32)
            to_res = T.alloc_buffer((rows, streams, lanes), f32)
            lane_sum = T.alloc_buffer((1,), f32)

            for d in range(row.vectors):
                for i in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        g[i, j] = wide(grad_out[t, i * hidden + row.start(d) + j])
                for j in T.vectorized(lanes):
                    v[j] = T.float32(0)
                for i in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        v[j] = v[j] + h_post[t, i] * g[i, j]
                for j in T.vectorized(lanes):
                    grad_y[t, row.start(d) + j] = narrow(dtype, v[j])
                for s in T.unroll(streams):
                    for j in T.vectorized(lanes):
                        dx[0, j] = T.float32(0)
                    for i in T.unroll(streams):
                        for j in T.vectorized(lanes):
                            dx[0, j] = dx[0, j] + h_res[t, i, s] * g[i, j]
                    large.put(grad_x, t, s * hidden + row.start(d), dx, 0, past)

            for b in range(streams // rows):
                for p in T.unroll(rows):
                    for j in T.vectorized(lanes):
                        to_post[p, j] = T.float32(0)
                    for s in T.unroll(streams):
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
                    for s in T.unroll(streams):
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
                    for s in T.unroll(streams):
                        lane_sum[0] = T.float32(0)
                        for j in T.unroll(lanes):
                            lane_sum[0] = lane_sum[0] + to_res[p, s, j]
                        grad_h_res[t, b * rows + p, s] = lane_sum[0]
            large.end(past)

    return mhc_post_backward
