"""``mhc_head`` and its gradients: the kernels of ``mhc_pre``, with as many mixes as there are streams."""

from __future__ import annotations

from mhc.backends.pallas.gpu import mhc_pre as gpu_forward
from mhc.backends.pallas.gpu import mhc_pre_backward as gpu_backward
from mhc.backends.pallas.kernel import Kernel, Shapes
from mhc.backends.pallas.mhc_pre import limit_of_backward, limit_of_forward, shapes_of_inputs, shapes_of_saved
from mhc.backends.pallas.mhc_pre.backward import backward
from mhc.backends.pallas.mhc_pre.forward import forward
from mhc.ops.mhc_head import MhcHeadSpec


def _shapes_of_backward(spec: MhcHeadSpec, tokens: int) -> Shapes:
    return shapes_of_saved(spec, tokens) | {"grad_out": ((tokens, spec.hidden), spec.dtype)}


FORWARD = Kernel(forward, shapes_of_inputs, ("norm_eps", "pre_eps"), limit_of_forward, on_gpu=gpu_forward.forward)
BACKWARD = Kernel(backward, _shapes_of_backward, ("pre_eps",), limit_of_backward, on_gpu=gpu_backward.backward)
