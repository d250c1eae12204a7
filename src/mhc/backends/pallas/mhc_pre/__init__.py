"""``mhc_pre`` and its gradients; ``mhc_head`` has the same kernels."""

from __future__ import annotations

from typing import Any

from mhc.backends.pallas.blocks import too_large, vmem_bytes
from mhc.backends.pallas.gpu import mhc_pre as gpu_forward
from mhc.backends.pallas.gpu import mhc_pre_backward as gpu_backward
from mhc.backends.pallas.kernel import Kernel, Shapes
from mhc.backends.pallas.mhc_pre import backward, forward
from mhc.ops.mhc_pre import MhcPreSpec


def shapes_of_inputs(spec: Any, tokens: int) -> dict[str, Any]:
    """Return the shapes of the forward's inputs, of ``mhc_head`` too."""
    gates = 1 if spec.mixes == spec.streams else 3
    return {
        "x": ((tokens, spec.streams, spec.hidden), spec.dtype),
        "phi": ((spec.mixes, spec.width), None),
        "alpha": ((gates,), None),
        "bias": ((spec.mixes,), None),
        "gamma": ((spec.streams, spec.hidden), None) if spec.gamma else None,
    }


def shapes_of_saved(spec: Any, tokens: int) -> dict[str, Any]:
    """Return the shapes of the forward's inputs, and of what it keeps for the backward."""
    return shapes_of_inputs(spec, tokens) | {"m": ((tokens, spec.mixes), None), "r": ((tokens,), None)}


def limit_of_forward(spec: Any) -> str | None:
    """Return why the blocks of the forward do not fit VMEM, or None where they do."""
    columns = forward.columns_of(spec.streams, spec.hidden, spec.mixes)
    return too_large(vmem_bytes(columns, (spec.mixes + 1) * spec.width))


def limit_of_backward(spec: Any) -> str | None:
    """Return why the blocks of the backward do not fit VMEM, or None where they do."""
    columns = backward.columns_of(spec.streams, spec.hidden, spec.mixes)
    return too_large(vmem_bytes(columns, (spec.mixes + 1) * spec.width))


def _shapes_of_backward(spec: MhcPreSpec, tokens: int) -> Shapes:
    return shapes_of_saved(spec, tokens) | {
        "grad_h_in": ((tokens, spec.hidden), spec.dtype),
        "grad_h_post": ((tokens, spec.streams), None),
        "grad_h_res": ((tokens, spec.streams, spec.streams), None),
    }


FORWARD = Kernel(
    forward.forward,
    shapes_of_inputs,
    ("norm_eps", "pre_eps", "post_scale"),
    limit_of_forward,
    on_gpu=gpu_forward.forward,
)
BACKWARD = Kernel(
    backward.backward,
    _shapes_of_backward,
    ("pre_eps", "post_scale"),
    limit_of_backward,
    on_gpu=gpu_backward.backward,
)
