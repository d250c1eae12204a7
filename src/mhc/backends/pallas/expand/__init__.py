"""``expand`` and its gradient: a block of tokens at a time."""

from __future__ import annotations

from mhc.backends.pallas.blocks import too_large, vmem_bytes
from mhc.backends.pallas.expand.launches import backward, forward
from mhc.backends.pallas.gpu import expand as gpu
from mhc.backends.pallas.kernel import Kernel
from mhc.ops.expand import ExpandSpec


def _limit(spec: ExpandSpec) -> str | None:
    return too_large(vmem_bytes((spec.streams + 1) * spec.hidden, 0))


FORWARD = Kernel(
    forward, lambda spec, tokens: {"x": ((tokens, spec.hidden), spec.dtype)}, ("streams",), _limit, on_gpu=gpu.forward
)
BACKWARD = Kernel(
    backward,
    lambda spec, tokens: {"grad_out": ((tokens, spec.streams, spec.hidden), spec.dtype)},
    (),
    _limit,
    on_gpu=gpu.backward,
)
