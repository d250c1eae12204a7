"""``mhc_single_pass``, with or without fp8: launches of ``mhc_post``, a variant of ``mhc_pre`` and the norm in turn.

``variants.toml`` chooses among the variants of ``mhc_coefficients``. The kernels of ``mhc_pre`` read with the weights
that are given, and backward they add the gradient that the streams have from elsewhere, so no gradient of the streams
is written and read again but the sum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from mhc.backends.reading import Reading, ReadingBackward
from mhc.backends.triton import mhc_coefficients, mhc_post, norm
from mhc.backends.triton.kernel import Kernel, in_turn, itself
from mhc.backends.triton.launch import Launch
from mhc.backends.triton.mhc_pre.tensors import norm_behind
from mhc.ops.mhc_coefficients import MhcCoefficientsGrads, MhcCoefficientsOutputs
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs, MhcPostSpec
from mhc.ops.mhc_single_pass import (
    MhcSinglePassBackwardInputs,
    MhcSinglePassGrads,
    MhcSinglePassInputs,
    MhcSinglePassOutputs,
)
from mhc.ops.mhc_single_pass_fp8 import MhcSinglePassFp8Inputs, MhcSinglePassFp8Outputs
from mhc.ops.read import part_of

_Launches = Callable[[Any, Any], list[Launch]]
_post_spec = functools.partial(part_of, MhcPostSpec)


def _launches(
    inputs: MhcSinglePassInputs | MhcSinglePassFp8Inputs,
    out: MhcSinglePassOutputs | MhcSinglePassFp8Outputs,
    post: _Launches,
    pre: _Launches,
    *normalise: _Launches,
) -> list[Launch]:
    reading = Reading(out.out, *inputs[5:9], *inputs[10:14])
    reading.pre, reading.read, reading.norm = inputs.pre, out.read, norm_behind(inputs, out)
    made = MhcCoefficientsOutputs(out.next_h_pre, out.next_h_post, out.next_logits, out.m, out.r)
    written = post(MhcPostInputs(*inputs[:4]), MhcPostOutputs(out.out))
    return [*written, *pre(reading, made), *(launch for each in normalise for launch in each(inputs, out))]


def _backward_launches(
    inputs: MhcSinglePassBackwardInputs,
    out: MhcSinglePassGrads,
    normalise: _Launches,
    pre: _Launches,
    post: _Launches,
) -> list[Launch]:
    needs_post = tuple(inputs.needs[:4])
    grad_read = torch.empty_like(inputs.read)
    launches = normalise(inputs, (grad_read, out.norm_weight))
    between = torch.empty_like(inputs.x) if any(needs_post) else None
    needs = (between is not None, *inputs.needs[5:9])
    incoming = inputs[16:19]
    reading = ReadingBackward(inputs.out, *inputs[5:9], inputs.m, inputs.r, *incoming, *inputs[20:24], needs)
    reading.pre, reading.grad_read, reading.grad_pre, reading.added = inputs.pre, grad_read, out.pre, inputs.grad_out
    launches += pre(reading, MhcCoefficientsGrads(between, *out[5:9]))
    if between is not None:
        launches += post(MhcPostBackwardInputs(*inputs[:4], between, needs_post), MhcPostGrads(*out[:4]))
    return launches


def _forward(name: str, pre: Kernel) -> Kernel:
    """Return the forward with a variant of ``mhc_pre``."""
    behind = [] if name in norm.NORMALISE else [(norm.FORWARD, itself)]
    return in_turn([(mhc_post.FORWARD, _post_spec), (pre, itself), *behind], _launches)


def _backward(pre: Kernel) -> Kernel:
    """Return the backward with a variant of ``mhc_pre``."""
    return in_turn([(norm.BACKWARD, itself), (pre, itself), (mhc_post.BACKWARD, _post_spec)], _backward_launches)


FORWARD = {name: _forward(name, kernel) for name, kernel in mhc_coefficients.FORWARD.items()}
BACKWARD = {name: _backward(kernel) for name, kernel in mhc_coefficients.BACKWARD.items()}
