"""``sinkhorn`` and its gradient for Ascend NPUs."""

from __future__ import annotations

from typing import Any

from mhc.backends.triton_ascend.kernel import Kernel, padded
from mhc.backends.triton_ascend.sinkhorn.backward import sinkhorn_backward_kernel
from mhc.backends.triton_ascend.sinkhorn.forward import sinkhorn_kernel
from mhc.backends.triton_ascend.source import Source
from mhc.ops.sinkhorn import SinkhornSpec

BLOCK_TOKENS = 8


def _sizes(spec: SinkhornSpec) -> dict[str, Any]:
    return {
        "STREAMS": spec.streams,
        "PADDED": padded(spec.streams),
        "ITERATIONS": spec.iterations,
        "EPS": spec.eps,
        "FORM": spec.form,
        "BLOCK_TOKENS": BLOCK_TOKENS,
    }


def _forward(spec: SinkhornSpec) -> list[Source]:
    return [Source(sinkhorn_kernel, ("*fp32", "*fp32", "i32"), _sizes(spec), ("blocks of tokens",))]


def _backward(spec: SinkhornSpec) -> list[Source]:
    return [Source(sinkhorn_backward_kernel, ("*fp32", "*fp32", "*fp32", "i32"), _sizes(spec), ("blocks of tokens",))]


FORWARD, BACKWARD = Kernel(_forward), Kernel(_backward)
