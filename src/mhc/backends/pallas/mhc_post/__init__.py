"""``mhc_post`` and its gradients: a block of tokens at a time."""

from __future__ import annotations

from typing import Any

from mhc.backends.pallas.blocks import too_large, vmem_bytes
from mhc.backends.pallas.gpu import mhc_post as gpu
from mhc.backends.pallas.kernel import Kernel
from mhc.backends.pallas.mhc_post import backward, forward
from mhc.ops.mhc_post import MhcPostSpec


def _limit(columns_of: Any) -> Any:
    return lambda spec: too_large(vmem_bytes(columns_of(spec.streams, spec.hidden), 0))


def _shapes(spec: MhcPostSpec, tokens: int) -> dict[str, Any]:
    n, h = spec.streams, spec.hidden
    return {
        "x": ((tokens, n, h), spec.dtype),
        "y": ((tokens, h), spec.dtype),
        "h_post": ((tokens, n), None),
        "h_res": ((tokens, n, n), None),
    }


FORWARD = Kernel(forward.forward, _shapes, limit=_limit(forward.columns_of), on_gpu=gpu.forward)
BACKWARD = Kernel(
    backward.backward,
    lambda spec, tokens: _shapes(spec, tokens) | {"grad_out": _shapes(spec, tokens)["x"]},
    limit=_limit(backward.columns_of),
    on_gpu=gpu.backward,
)
