"""The CPU kernel of ``expand``'s gradient: a loop over lanes per token."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import FP32, STORAGE, narrow, widen
from mhc.backends.tilelang.expand.tensors import tensors_of
from mhc.ops.expand import ExpandSpec


def backward(spec: ExpandSpec, lanes: int) -> Any:
    """Return the gradient of ``expand`` as a prim_func over grad_out [tokens, n·hidden]."""
    streams, hidden, dtype = spec.streams, spec.hidden, spec.dtype
    # The last vector of a stream begins early enough to end with it: some columns are computed twice, and alike.
    lanes = min(lanes, hidden)
    tensors = tensors_of(spec, STORAGE[dtype][1], T)
    tokens = tensors.tokens

    @T.prim_func
    def expand_backward(grad_out: tensors.grad_out, grad_x: tensors.grad_x):
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            acc = T.alloc_local((lanes,), FP32)
            for c in T.serial(T.ceildiv(hidden, lanes)):
                for v in T.serial(lanes):
                    acc[v] = T.float32(0)
                for i in T.serial(streams):
                    for v in T.serial(lanes):
                        acc[v] = acc[v] + widen(
                            grad_out[token, i * hidden + T.min(c * lanes, hidden - lanes) + v], dtype
                        )
                for v in T.serial(lanes):
                    grad_x[token, T.min(c * lanes, hidden - lanes) + v] = narrow(acc[v], dtype)

    return expand_backward
