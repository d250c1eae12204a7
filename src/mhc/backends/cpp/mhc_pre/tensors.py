"""The tensors of the operators that these kernels compute, in the order of the arguments; None for what one lacks.

``mhc_pre`` reads with its own weights, ``mhc_head`` does that alone, and ``mhc_coefficients`` reads nothing and gives
the weights. In ``mhc_single_pass`` the kernels read with weights that are given, and give their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from mhc.ops.mhc_coefficients import (
    MhcCoefficientsBackwardInputs,
    MhcCoefficientsGrads,
    MhcCoefficientsInputs,
    MhcCoefficientsOutputs,
    MhcCoefficientsSpec,
)
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads, MhcHeadInputs, MhcHeadOutputs, MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreInputs, MhcPreOutputs, MhcPreSpec

Spec = MhcPreSpec | MhcHeadSpec | MhcCoefficientsSpec
Inputs = MhcPreInputs | MhcHeadInputs | MhcCoefficientsInputs
Outputs = MhcPreOutputs | MhcHeadOutputs | MhcCoefficientsOutputs
BackwardInputs = MhcPreBackwardInputs | MhcHeadBackwardInputs | MhcCoefficientsBackwardInputs
Grads = MhcPreGrads | MhcHeadGrads | MhcCoefficientsGrads


class Reading(MhcCoefficientsInputs):
    """The inputs of ``mhc_coefficients``, and for a read of the same streams ``pre``, and ``read`` to write into."""

    pre: torch.Tensor
    read: torch.Tensor


class ReadingBackward(MhcCoefficientsBackwardInputs):
    """The same for the backward: the weights, the gradient of what was read, and where the weights' gradient goes.

    ``added`` is a gradient of the streams that came from elsewhere.
    """

    pre: torch.Tensor
    grad_read: torch.Tensor
    grad_pre: torch.Tensor | None
    added: torch.Tensor


class Incoming(NamedTuple):
    """Hold what the backward takes for the read and the coefficients, and the gradient of ``pre``."""

    pre: Any = None
    grad_h_in: Any = None
    grad_h_pre: Any = None
    grad_h_post: Any = None
    grad_h_res: Any = None
    grad_pre: Any = None


def results(inputs: Inputs, out: Outputs) -> tuple[Any, ...]:
    """Return pre, h_in, h_pre, h_post, h_res, m and r."""
    if isinstance(out, MhcPreOutputs):
        return None, out.h_in, None, *out[1:]
    if isinstance(out, MhcHeadOutputs):
        return None, out.out, None, None, None, out.m, out.r
    return getattr(inputs, "pre", None), getattr(inputs, "read", None), *out


def incoming(inputs: BackwardInputs) -> Incoming:
    """Return what the backward takes beside the mapping."""
    if isinstance(inputs, MhcPreBackwardInputs):
        return Incoming(None, inputs.grad_h_in, None, inputs.grad_h_post, inputs.grad_h_res)
    if isinstance(inputs, MhcHeadBackwardInputs):
        return Incoming(grad_h_in=inputs.grad_out)
    read = [getattr(inputs, name, None) for name in ("pre", "grad_read", "grad_pre")]
    return Incoming(*read[:2], *inputs[7:10], read[2])


def constants(spec: Spec) -> tuple[tuple[str, int], ...]:
    """Return the constants of the source that only operators with logits of their own have."""
    return (("GIVES", 1), ("LOGITS", spec.logits)) if isinstance(spec, MhcCoefficientsSpec) else ()
