"""The equations of ``mhc_pre``, in no order but this: a sum is made of parts, so that no chain of additions is long."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

import tvm
from tvm.script import tirx as T

from mhc.backends.tvm.mhc_pre.tensors import Spec, post_scale, tensors_of
from mhc.backends.tvm.vectors import name_of, narrow, wide

_LONGEST = 256  # elements of a part; there are two parts at least, as the trace has a loop over them


def forward(spec: Spec, tokens: int) -> tvm.tirx.PrimFunc:
    """Project the streams of a token, and read it with the weights that come of it."""
    f32, dtype, scale = "float32", name_of(spec.dtype), post_scale(spec)
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    part = max(length for length in range(1, _LONGEST + 1) if width % length == 0 and length < width)
    parts = width // part
    tensors = tensors_of(spec, dtype, tokens=tokens)

    @T.prim_func(s_tir=True)
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
        T.func_attr({"global_symbol": "mhc_pre", "tirx.noalias": True})
        sums = T.sblock_alloc_buffer((tokens, mixes, parts), f32)
        squares = T.sblock_alloc_buffer((tokens, parts), f32)
        square = T.sblock_alloc_buffer((tokens,), f32)
        mix = T.sblock_alloc_buffer((tokens, mixes), f32)
        read = T.sblock_alloc_buffer((tokens, hidden), f32)
        for t, o, i, d in T.grid(tokens, mixes, parts, part):
            with T.sblock("sums"):
                vt, vo, vi, vd = T.axis.remap("SSSR", [t, o, i, d])
                with T.init():
                    sums[vt, vo, vi] = T.float32(0)
                if spec.gamma:
                    sums[vt, vo, vi] = sums[vt, vo, vi] + wide(x[vt, vi * part + vd]) * (
                        gamma[vi * part + vd] * phi[vo, vi * part + vd]
                    )
                else:
                    sums[vt, vo, vi] = sums[vt, vo, vi] + wide(x[vt, vi * part + vd]) * phi[vo, vi * part + vd]
        for t, i, d in T.grid(tokens, parts, part):
            with T.sblock("squares"):
                vt, vi, vd = T.axis.remap("SSR", [t, i, d])
                with T.init():
                    squares[vt, vi] = T.float32(0)
                squares[vt, vi] = squares[vt, vi] + wide(x[vt, vi * part + vd]) * wide(x[vt, vi * part + vd])
        for t, i in T.grid(tokens, parts):
            with T.sblock("square"):
                vt, vi = T.axis.remap("SR", [t, i])
                with T.init():
                    square[vt] = T.float32(0)
                square[vt] = square[vt] + squares[vt, vi]
        for t in range(tokens):
            with T.sblock("r"):
                vt = T.axis.spatial(tokens, t)
                r[vt] = T.rsqrt(square[vt] / T.float32(width) + T.float32(spec.norm_eps))
        for t, o, i in T.grid(tokens, mixes, parts):
            with T.sblock("mix"):
                vt, vo, vi = T.axis.remap("SSR", [t, o, i])
                with T.init():
                    mix[vt, vo] = T.float32(0)
                mix[vt, vo] = mix[vt, vo] + sums[vt, vo, vi]
        for t, o in T.grid(tokens, mixes):
            with T.sblock("m"):
                vt, vo = T.axis.remap("SS", [t, o])
                m[vt, vo] = mix[vt, vo] * r[vt]
        for t, i in T.grid(tokens, streams):
            with T.sblock("h_post"):
                vt, vi = T.axis.remap("SS", [t, i])
                h_post[vt, vi] = T.float32(scale) * T.sigmoid(alpha[1] * m[vt, streams + vi] + bias[streams + vi])
        for t, i in T.grid(tokens, streams * streams):
            with T.sblock("h_res"):
                vt, vi = T.axis.remap("SS", [t, i])
                h_res[vt, vi] = alpha[2] * m[vt, 2 * streams + vi] + bias[2 * streams + vi]
        h_pre = T.sblock_alloc_buffer((tokens, streams), f32)
        for t, i in T.grid(tokens, streams):
            with T.sblock("h_pre"):
                vt, vi = T.axis.remap("SS", [t, i])
                h_pre[vt, vi] = T.sigmoid(alpha[0] * m[vt, vi] + bias[vi]) + T.float32(spec.pre_eps)
        for t, d, i in T.grid(tokens, hidden, streams):
            with T.sblock("read"):
                vt, vd, vi = T.axis.remap("SSR", [t, d, i])
                with T.init():
                    read[vt, vd] = T.float32(0)
                read[vt, vd] = read[vt, vd] + h_pre[vt, vi] * wide(x[vt, vi * hidden + vd])
        for t, d in T.grid(tokens, hidden):
            with T.sblock("h_in"):
                vt, vd = T.axis.remap("SS", [t, d])
                h_in[vt, vd] = narrow(dtype, read[vt, vd])

    return mhc_pre
