"""``expand`` and its gradient: a block of threads for each token."""

from __future__ import annotations

from mhc.backends.cpp.devices import I32, Launch
from mhc.backends.cpp.kernel import Kernel, whole
from mhc.ops.expand import ExpandBackwardInputs, ExpandGrads, ExpandInputs, ExpandOutputs


def _forward(inputs: ExpandInputs, out: ExpandOutputs) -> list[Launch]:
    hidden = inputs.x.shape[-1]
    arguments = (inputs.x, out.out, I32(hidden), whole(hidden, inputs.x, out.out))
    return [Launch("expand_forward", (inputs.x.shape[:-1].numel(), 1, 1), arguments)]


def _backward(inputs: ExpandBackwardInputs, out: ExpandGrads) -> list[Launch]:
    hidden = inputs.grad_out.shape[-1]
    arguments = (inputs.grad_out, out.x, I32(hidden), whole(hidden, inputs.grad_out, out.x))
    return [Launch("expand_backward", (inputs.grad_out.shape[:-2].numel(), 1, 1), arguments)]


FORWARD = Kernel("expand", ("expand_forward",), _forward)
BACKWARD = Kernel("expand", ("expand_backward",), _backward)
