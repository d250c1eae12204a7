"""``mhc_post`` and its gradient for Ascend NPUs."""

from __future__ import annotations

from typing import Any

from mhc.backends.triton_ascend.kernel import POINTERS, Kernel, columns, padded
from mhc.backends.triton_ascend.mhc_post.backward import mhc_post_backward_kernel
from mhc.backends.triton_ascend.mhc_post.forward import mhc_post_kernel
from mhc.backends.triton_ascend.source import Source
from mhc.ops.mhc_post import MhcPostSpec


def _sizes(spec: MhcPostSpec) -> dict[str, Any]:
    return {"STREAMS": spec.streams, "PADDED": padded(spec.streams), **columns(spec.hidden)}


def _forward(spec: MhcPostSpec) -> list[Source]:
    x = POINTERS[spec.dtype]
    return [Source(mhc_post_kernel, (x, x, "*fp32", "*fp32", x), _sizes(spec), ("tokens", "columns"))]


def _backward(spec: MhcPostSpec) -> list[Source]:
    x, inputs = POINTERS[spec.dtype], ("*fp32", "*fp32")
    return [Source(mhc_post_backward_kernel, (x, x, *inputs, x, x, x, *inputs), _sizes(spec))]


FORWARD, BACKWARD = Kernel(_forward), Kernel(_backward)
