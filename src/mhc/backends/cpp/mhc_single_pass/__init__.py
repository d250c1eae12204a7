"""``mhc_single_pass``, with or without fp8, and its gradients: the kernels of ``mhc_post``, ``mhc_pre`` and the norm.

The kernels of ``mhc_pre`` read with the weights that are given, and backward they add the gradient that the streams
have from elsewhere.
"""

from __future__ import annotations

from typing import Any

import torch

from mhc.backends import Artifact, KeptCode, combined, too_many_streams
from mhc.backends.cpp import mhc_post, mhc_pre
from mhc.backends.cpp.compilers import THREADS
from mhc.backends.cpp.devices import F32, I32, I64, Launch
from mhc.backends.cpp.kernel import Kernel, cdiv, whole
from mhc.backends.cpp.mhc_pre.launches import STAGE
from mhc.backends.reading import Reading, ReadingBackward
from mhc.ops.mhc_coefficients import MhcCoefficientsGrads, MhcCoefficientsOutputs
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs, MhcPostSpec
from mhc.ops.mhc_single_pass import (
    MhcSinglePassBackwardInputs,
    MhcSinglePassGrads,
    MhcSinglePassInputs,
    MhcSinglePassOutputs,
    MhcSinglePassSpec,
)
from mhc.ops.mhc_single_pass_fp8 import MhcSinglePassFp8Inputs, MhcSinglePassFp8Outputs, MhcSinglePassFp8Spec

_Inputs = MhcSinglePassInputs | MhcSinglePassFp8Inputs
_Outputs = MhcSinglePassOutputs | MhcSinglePassFp8Outputs
_MOST_CHUNKS = 32  # of tokens that are summed apart


def _norm(inputs: _Inputs, out: _Outputs) -> list[Launch]:
    hidden = inputs.x.shape[-1]
    last = (I32(hidden), F32(inputs.norm_eps), whole(hidden, out.read, inputs.norm_weight, out.h_in))
    arguments = (out.read, inputs.norm_weight, out.h_in, out.s, getattr(out, "scale", None), *last)
    return [Launch("mhc_norm_forward", (inputs.x.shape[:-2].numel(), 1, 1), arguments)]


def _norm_backward(inputs: MhcSinglePassBackwardInputs, out: tuple[torch.Tensor, torch.Tensor | None]) -> list[Launch]:
    """Return the launches; ``out`` are the gradients of what was read, and of the weight where it is asked for."""
    grad_read, grad_weight = out
    tokens, hidden = inputs.x.shape[:-2].numel(), inputs.x.shape[-1]
    last = (I32(hidden), whole(hidden, inputs.read, inputs.norm_weight, inputs.grad_h_in, grad_read))
    arguments = (inputs.read, inputs.norm_weight, inputs.s, inputs.grad_h_in, grad_read, *last)
    launches = [Launch("mhc_norm_grad_read", (tokens, 1, 1), arguments)]
    if grad_weight is not None:
        chunk = cdiv(cdiv(tokens, min(_MOST_CHUNKS, cdiv(tokens, STAGE))), STAGE) * STAGE
        count, columns = cdiv(tokens, chunk), cdiv(hidden, THREADS)
        sums = torch.empty(count * hidden, dtype=torch.float32, device=inputs.x.device)
        arguments = (inputs.read, inputs.s, inputs.grad_h_in, sums, I64(tokens), I64(chunk), I32(hidden))
        launches.append(Launch("mhc_norm_weight_sums", (columns, count, 1), arguments))
        added = (sums, grad_weight, I32(count), I32(hidden))
        launches.append(Launch("mhc_norm_weight_add", (columns, 1, 1), added))
    return launches


def _scales(spec: MhcSinglePassSpec) -> tuple[tuple[str, int], ...]:
    """Return the constant of fp8, where the specialisation has that."""
    return (("SCALES", 1 + spec.power_of_two_scales),) if isinstance(spec, MhcSinglePassFp8Spec) else ()


_NORM = Kernel("mhc_single_pass", ("mhc_norm_forward",), _norm, _scales)
_NORM_BACKWARD = Kernel(
    "mhc_single_pass", ("mhc_norm_grad_read", "mhc_norm_weight_sums", "mhc_norm_weight_add"), _norm_backward
)


class _InTurn(KeptCode):
    """Kernels that run one after the other, as one."""

    any_leading_dims = True

    def __init__(self, post: Kernel, pre: Kernel, norm: Kernel) -> None:
        self._post, self._pre, self._norm = post, pre, norm

    def supports(self, spec: MhcSinglePassSpec, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the kernels do not take the specialisation, or None where they do."""
        return too_many_streams(spec)

    def compile(self, spec: MhcSinglePassSpec, target: str) -> Artifact:
        """Compile all of them."""
        post = self._post.compile(MhcPostSpec(spec.streams, spec.hidden, spec.dtype), target)
        return combined([post, self._pre.compile(spec, target), self._norm.compile(spec, target)])


class _Forward(_InTurn):
    def run(self, inputs: _Inputs, out: _Outputs, target: str | None = None) -> Any:
        """Run on the device of the inputs."""
        self._post.run(MhcPostInputs(*inputs[:4]), MhcPostOutputs(out.out), target)
        reading = Reading(out.out, *inputs[5:9], *inputs[10:14])
        reading.pre, reading.read = inputs.pre, out.read
        made = (out.next_h_pre, out.next_h_post, out.next_logits, out.m, out.r)
        self._pre.run(reading, MhcCoefficientsOutputs(*made), target)
        self._norm.run(inputs, out, target)


class _Backward(_InTurn):
    def run(self, inputs: MhcSinglePassBackwardInputs, out: MhcSinglePassGrads, target: str | None = None) -> Any:
        """Run on the device of the inputs; a gradient has the same bits whatever else is asked for."""
        needs_post = tuple(inputs.needs[:4])
        grad_read = torch.empty_like(inputs.read)
        self._norm.run(inputs, (grad_read, out.norm_weight), target)
        between = torch.empty_like(inputs.x) if any(needs_post) else None
        needs = (between is not None, *inputs.needs[5:9])
        given = (inputs.out, *inputs[5:9], inputs.m, inputs.r, *inputs[16:19], *inputs[20:24], needs)
        reading = ReadingBackward(*given)
        reading.pre, reading.grad_read, reading.grad_pre = inputs.pre, grad_read, out.pre
        reading.added = inputs.grad_out
        self._pre.run(reading, MhcCoefficientsGrads(between, *out[5:9]), target)
        if between is not None:
            post = MhcPostBackwardInputs(*inputs[:4], between, needs_post)
            self._post.run(post, MhcPostGrads(*out[:4]), target)


FORWARD = _Forward(mhc_post.FORWARD["plain"], mhc_pre.FORWARD["plain"], _NORM)
BACKWARD = _Backward(mhc_post.BACKWARD["plain"], mhc_pre.BACKWARD["plain"], _NORM_BACKWARD)
