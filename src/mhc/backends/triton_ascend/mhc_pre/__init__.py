"""``mhc_pre`` and its gradient for Ascend NPUs; ``mhc_head`` has the same kernels."""

from __future__ import annotations

from typing import Any

from mhc.backends.triton_ascend.kernel import POINTERS, Kernel, columns, padded
from mhc.backends.triton_ascend.mhc_pre.backward import read_backward_kernel, read_columns_kernel, read_small_kernel
from mhc.backends.triton_ascend.mhc_pre.forward import read_kernel
from mhc.backends.triton_ascend.source import Source

BLOCK_TOKENS = 32  # the tokens of one part of a sum over all of them


def _sizes(spec: Any) -> dict[str, Any]:
    return {
        "STREAMS": spec.streams,
        "MIXES": spec.mixes,
        "PADDED": padded(spec.mixes),
        "WRITES_BACK": spec.mixes > spec.streams,
        "GAMMA": spec.gamma,
        "PRE_EPS": spec.pre_eps,
        "POST_SCALE": getattr(spec, "post_scale", 1.0),
        **columns(spec.hidden),
    }


def _forward(spec: Any) -> list[Source]:
    x, fp32 = POINTERS[spec.dtype], "*fp32"
    types = (x, fp32, fp32, fp32, fp32, x, fp32, fp32, fp32, fp32)
    return [Source(read_kernel, types, {**_sizes(spec), "NORM_EPS": spec.norm_eps})]


def _backward(spec: Any) -> list[Source]:
    x, fp32, sizes = POINTERS[spec.dtype], "*fp32", _sizes(spec)
    types = (x, fp32, fp32, fp32, fp32, fp32, fp32, x, fp32, fp32, x, fp32, fp32)
    sums = {**sizes, "WIDTH": spec.width, "BLOCK_TOKENS": BLOCK_TOKENS}
    return [
        Source(read_backward_kernel, types, sizes),
        Source(read_columns_kernel, (x, fp32, fp32, fp32, fp32, fp32, "i32"), sums, ("columns",)),
        Source(read_small_kernel, (fp32, fp32, fp32, fp32, "i32"), sums, ()),
    ]


FORWARD, BACKWARD = Kernel(_forward), Kernel(_backward)
