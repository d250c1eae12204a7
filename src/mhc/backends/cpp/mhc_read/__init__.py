"""``mhc_read`` and its gradients: a block of threads for each token."""

from __future__ import annotations

from mhc.backends.cpp.devices import I32, Launch
from mhc.backends.cpp.kernel import Kernel, whole
from mhc.ops.mhc_read import MhcReadBackwardInputs, MhcReadGrads, MhcReadInputs, MhcReadOutputs


def _forward(inputs: MhcReadInputs, out: MhcReadOutputs) -> list[Launch]:
    hidden = inputs.x.shape[-1]
    arguments = (*inputs, out.h_in, I32(hidden), whole(hidden, inputs.x, out.h_in))
    return [Launch("mhc_read_forward", (inputs.x.shape[:-2].numel(), 1, 1), arguments)]


def _backward(inputs: MhcReadBackwardInputs, out: MhcReadGrads) -> list[Launch]:
    hidden = inputs.x.shape[-1]
    arguments = (*inputs[:3], *out, I32(hidden), whole(hidden, inputs.x, inputs.grad_h_in, out.x))
    return [Launch("mhc_read_backward", (inputs.x.shape[:-2].numel(), 1, 1), arguments)]


FORWARD = Kernel("mhc_read", ("mhc_read_forward",), _forward)
BACKWARD = Kernel("mhc_read", ("mhc_read_backward",), _backward)
