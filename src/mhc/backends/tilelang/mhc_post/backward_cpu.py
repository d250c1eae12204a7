"""The CPU kernel of ``mhc_post``'s gradients: a loop over lanes per token."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import FP32, STORAGE, narrow, widen
from mhc.backends.tilelang.mhc_post.tensors import tensors_of
from mhc.ops.mhc_post import MhcPostSpec


def backward(spec: MhcPostSpec, lanes: int) -> Any:
    """Return the gradients of ``mhc_post`` as a prim_func over x [tokens, n·hidden]."""
    streams, hidden, dtype = spec.streams, spec.hidden, spec.dtype
    _, stored = STORAGE[dtype]
    lanes = min(lanes, hidden)
    sums = streams * (streams + 1)  # of h_res, then of h_post
    tensors = tensors_of(spec, stored, T)
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
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            grads = T.alloc_local((streams, lanes), FP32)
            value = T.alloc_local((lanes,), FP32)
            acc = T.alloc_local((lanes,), FP32)
            products = T.alloc_local((sums, lanes), FP32)
            once = T.alloc_local((lanes,), FP32)
            scalar = T.alloc_local((1,), FP32)

            for o in T.serial(sums):
                for v in T.serial(lanes):
                    products[o, v] = T.float32(0)
            for c in T.serial(T.ceildiv(hidden, lanes)):
                # The last vector begins early enough to end with the stream: what it shares with the one before it is
                # computed twice and alike, but must enter the sums once.
                for v in T.serial(lanes):
                    once[v] = T.if_then_else(
                        T.min(c * lanes, hidden - lanes) + v >= c * lanes, T.float32(1), T.float32(0)
                    )
                for i in T.serial(streams):
                    for v in T.serial(lanes):
                        grads[i, v] = widen(grad_out[token, i * hidden + T.min(c * lanes, hidden - lanes) + v], dtype)
                for v in T.serial(lanes):
                    value[v] = widen(y[token, T.min(c * lanes, hidden - lanes) + v], dtype)
                    acc[v] = T.float32(0)
                for i in T.serial(streams):
                    for v in T.serial(lanes):
                        acc[v] = acc[v] + h_post[token, i] * grads[i, v]
                for v in T.serial(lanes):
                    grad_y[token, T.min(c * lanes, hidden - lanes) + v] = narrow(acc[v], dtype)
                for i in T.serial(streams):
                    for v in T.serial(lanes):
                        products[streams * streams + i, v] = products[streams * streams + i, v] + T.if_then_else(
                            once[v] > T.float32(0), grads[i, v] * value[v], T.float32(0)
                        )
                for j in T.serial(streams):
                    for v in T.serial(lanes):
                        value[v] = widen(x[token, j * hidden + T.min(c * lanes, hidden - lanes) + v], dtype)
                        acc[v] = T.float32(0)
                    for i in T.serial(streams):
                        for v in T.serial(lanes):
                            acc[v] = acc[v] + h_res[token, i * streams + j] * grads[i, v]
                    for v in T.serial(lanes):
                        grad_x[token, j * hidden + T.min(c * lanes, hidden - lanes) + v] = narrow(acc[v], dtype)
                    for i in T.serial(streams):
                        for v in T.serial(lanes):
                            products[i * streams + j, v] = products[i * streams + j, v] + T.if_then_else(
                                once[v] > T.float32(0), grads[i, v] * value[v], T.float32(0)
                            )

            for o in T.serial(sums):
                scalar[0] = T.float32(0)
                for v in T.serial(lanes):
                    scalar[0] = scalar[0] + products[o, v]
                if o < streams * streams:
                    grad_h_res[token, o] = scalar[0]
                else:
                    grad_h_post[token, o - streams * streams] = scalar[0]

    return mhc_post_backward
