"""``expand`` and its gradient for Ascend NPUs."""

from __future__ import annotations

from mhc.backends.triton_ascend.expand.backward import expand_backward_kernel
from mhc.backends.triton_ascend.expand.forward import expand_kernel
from mhc.backends.triton_ascend.kernel import POINTERS, Kernel, columns
from mhc.backends.triton_ascend.source import Source
from mhc.ops.expand import ExpandSpec


def _forward(spec: ExpandSpec) -> list[Source]:
    x, sizes = POINTERS[spec.dtype], {"STREAMS": spec.streams, **columns(spec.hidden)}
    return [Source(expand_kernel, (x, x), sizes, ("tokens", "columns"))]


def _backward(spec: ExpandSpec) -> list[Source]:
    x, sizes = POINTERS[spec.dtype], {"STREAMS": spec.streams, **columns(spec.hidden)}
    return [Source(expand_backward_kernel, (x, x), sizes, ("tokens", "columns"))]


FORWARD, BACKWARD = Kernel(_forward), Kernel(_backward)
