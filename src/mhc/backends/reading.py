"""The tensors of the operators that read with the kernels of ``mhc_pre``; None for what an operator has not.

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
    """The inputs of ``mhc_coefficients``, and for a read of the same streams ``pre``, and ``read`` to write into.

    A kernel that normalises what is read has ``norm``, the tensors of that.
    """

    pre: torch.Tensor
    read: torch.Tensor
    norm: Any


class ReadingBackward(MhcCoefficientsBackwardInputs):
    """The same for the backward: the weights, the gradient of what was read, and where the weights' gradient goes.

    ``added`` is a gradient of the streams that came from elsewhere.
    """

    pre: torch.Tensor
    grad_read: torch.Tensor
    grad_pre: torch.Tensor | None
    added: torch.Tensor


class Results(NamedTuple):
    """Hold what a forward takes beside the mapping, ``pre``, and what it stores; or their types."""

    pre: Any = None
    h_in: Any = None
    h_pre: Any = None
    h_post: Any = None
    h_res: Any = None
    m: Any = None
    r: Any = None


class Incoming(NamedTuple):
    """Hold what a backward takes for the read and the coefficients, and the gradient of ``pre``; or their types."""

    pre: Any = None
    grad_h_in: Any = None
    grad_h_pre: Any = None
    grad_h_post: Any = None
    grad_h_res: Any = None
    grad_pre: Any = None


def results(inputs: Inputs, out: Outputs) -> Results:
    """Return what a forward takes beside the mapping, and stores."""
    if isinstance(out, MhcPreOutputs):
        return Results(None, out.h_in, None, *out[1:])
    if isinstance(out, MhcHeadOutputs):
        return Results(h_in=out.out, m=out.m, r=out.r)
    return Results(getattr(inputs, "pre", None), getattr(inputs, "read", None), *out)


def incoming(inputs: BackwardInputs) -> Incoming:
    """Return what a backward takes beside the mapping."""
    if isinstance(inputs, MhcPreBackwardInputs):
        return Incoming(None, inputs.grad_h_in, None, inputs.grad_h_post, inputs.grad_h_res)
    if isinstance(inputs, MhcHeadBackwardInputs):
        return Incoming(grad_h_in=inputs.grad_out)
    read = [getattr(inputs, name, None) for name in ("pre", "grad_read", "grad_pre")]
    return Incoming(*read[:2], *inputs[7:10], read[2])
