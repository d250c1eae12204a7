"""``mhc_single_pass``, with or without fp8, and its gradients: the kernels of ``mhc_post``, ``mhc_pre`` and the norm.

The kernels of ``mhc_pre`` read with the weights that are given, and backward they add the gradient that the streams
have from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mhc.backends.cpp import mhc_post, mhc_pre, norm
from mhc.backends.in_turn import InTurn, like, part
from mhc.backends.reading import Reading, ReadingBackward
from mhc.ops.mhc_coefficients import MhcCoefficientsGrads, MhcCoefficientsOutputs
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs, MhcPostSpec
from mhc.ops.mhc_single_pass import (
    MhcSinglePassBackwardInputs,
    MhcSinglePassGrads,
    MhcSinglePassInputs,
    MhcSinglePassOutputs,
)
from mhc.ops.mhc_single_pass_fp8 import MhcSinglePassFp8Inputs, MhcSinglePassFp8Outputs


class _Forward(InTurn):
    def _calls(
        self,
        inputs: MhcSinglePassInputs | MhcSinglePassFp8Inputs,
        out: MhcSinglePassOutputs | MhcSinglePassFp8Outputs,
        rooms: Sequence[Any],
    ) -> Any:
        reading = Reading(out.out, *inputs[5:9], *inputs[10:14])
        reading.pre, reading.read = inputs.pre, out.read
        made = MhcCoefficientsOutputs(out.next_h_pre, out.next_h_post, out.next_logits, out.m, out.r)
        return (MhcPostInputs(*inputs[:4]), MhcPostOutputs(out.out)), (reading, made), (inputs, out)


class _Backward(InTurn):
    """A gradient has the same bits whatever else is asked for."""

    def _rooms(self, inputs: MhcSinglePassBackwardInputs) -> Sequence[Callable[[], torch.Tensor]]:
        return like(inputs.read), *([like(inputs.x)] if any(inputs.needs[:4]) else [])

    def _calls(self, inputs: MhcSinglePassBackwardInputs, out: MhcSinglePassGrads, rooms: Sequence[Any]) -> Any:
        grad_read, between = rooms[0], rooms[1] if rooms[1:] else None
        needs = (between is not None, *inputs.needs[5:9])
        given = (inputs.out, *inputs[5:9], inputs.m, inputs.r, *inputs[16:19], *inputs[20:24], needs)
        reading = ReadingBackward(*given)
        reading.pre, reading.grad_read, reading.grad_pre = inputs.pre, grad_read, out.pre
        reading.added = inputs.grad_out
        calls = [(inputs, (grad_read, out.norm_weight)), (reading, MhcCoefficientsGrads(between, *out[5:9]))]
        if between is not None:
            post = MhcPostBackwardInputs(*inputs[:4], between, tuple(inputs.needs[:4]))
            calls.append((post, MhcPostGrads(*out[:4])))
        return calls


FORWARD = _Forward(part(mhc_post.FORWARD["plain"], MhcPostSpec), part(mhc_pre.FORWARD["plain"]), part(norm.FORWARD))
BACKWARD = _Backward(
    part(norm.BACKWARD), part(mhc_pre.BACKWARD["plain"]), part(mhc_post.BACKWARD["plain"], MhcPostSpec)
)
