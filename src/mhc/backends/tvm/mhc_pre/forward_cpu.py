"""The script of ``mhc_pre`` and ``mhc_head`` for LLVM's CPU targets."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.mhc_pre.projection_cpu import projection, tile
from mhc.backends.tvm.mhc_pre.tensors import Spec, operator, post_scale, tensors_of, writes_back
from mhc.backends.tvm.vectors import Row, fetch, name_of, narrow, wide


def forward(spec: Spec, target: Target) -> tvm.tirx.PrimFunc:
    """Project a block of tokens, then read it a second time, from the cache, for ``h_in``.

    The parameters of inputs that the operator does not have are not read.
    """
    f32, dtype, name = "float32", name_of(spec.dtype), operator(spec)
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    coefficients, scale = writes_back(spec), post_scale(spec)
    blocking = tile(spec, target)
    height, rows, lanes = blocking.tokens * blocking.groups, blocking.rows, blocking.lanes
    project = projection(spec, blocking)
    row = Row.of(hidden, lanes)

    tensors = tensors_of(spec, dtype)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre(
        x: tensors.x,
        phi: tensors.phi,
        alpha: tensors.alpha,
        bias: tensors.bias,
        gamma: tensors.gamma,
        h_in: tensors.h_in,
        h_post: tensors.h_post,
        h_res: tensors.h_res,
        m: tensors.m,
        r: tensors.r,
    ):
        T.func_attr({"global_symbol": name, "tirx.noalias": True})
        for block in T.parallel(T.truncdiv(tokens + (height - 1), T.int64(height))):
            sums = T.alloc_buffer((height, mixes, lanes), f32)
            squares = T.alloc_buffer((height, lanes), f32)
            mix = T.alloc_buffer((mixes,), f32)
            h_pre = T.alloc_buffer((streams,), f32)
            read = T.alloc_buffer((row.lanes,), f32)
            norm = T.alloc_buffer((1,), f32)
            # The last few additions have the largest rounding errors, and alpha's gradient adds up the errors of m.
            lane_sum = T.alloc_buffer((rows,), "float64")
            first: T.let = block * height

            project(x, phi, gamma, tokens, first, sums, squares)

            for t in range(T.min(T.int64(height), tokens - first)):
                norm[0] = T.float32(0)
                for j in T.unroll(lanes):
                    norm[0] = norm[0] + squares[t, j]
                norm[0] = T.rsqrt(norm[0] / T.float32(width) + T.float32(spec.norm_eps))
                r[first + t] = norm[0]
                for o in range(mixes // rows):
                    # These sums wait for each addition: several of them go at the same time.
                    for p in T.unroll(rows):
                        lane_sum[p] = T.float64(0)
                    for j in T.unroll(lanes):
                        for p in T.unroll(rows):
                            lane_sum[p] = lane_sum[p] + T.Cast("float64", sums[t, o * rows + p, j])
                    for p in T.unroll(rows):
                        mix[o * rows + p] = T.Cast(f32, lane_sum[p]) * norm[0]
                        m[first + t, o * rows + p] = mix[o * rows + p]
                for i in range(streams):
                    h_pre[i] = T.sigmoid(alpha[0] * mix[i] + bias[i]) + T.float32(spec.pre_eps)
                if coefficients:
                    for i in range(streams):
                        h_post[first + t, i] = T.float32(scale) * T.sigmoid(
                            alpha[1] * mix[streams + i] + bias[streams + i]
                        )
                    for i in range(streams * streams):
                        h_res[first + t, i] = alpha[2] * mix[2 * streams + i] + bias[2 * streams + i]
                for d in range(row.vectors):
                    # The line of the next token, so that the CPU has it before it writes there.
                    T.evaluate(fetch(h_in[T.min(first + t + 1, tokens - 1), row.start(d)], for_writing=True))
                    for j in T.vectorized(row.lanes):
                        read[j] = T.float32(0)
                    for i in T.unroll(streams):
                        for j in T.vectorized(row.lanes):
                            read[j] = read[j] + h_pre[i] * wide(x[first + t, i * hidden + row.start(d) + j])
                    for j in T.vectorized(row.lanes):
                        h_in[first + t, row.start(d) + j] = narrow(dtype, read[j])

    return mhc_pre
