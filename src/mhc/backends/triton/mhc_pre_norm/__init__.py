"""``mhc_pre_norm`` and its gradient: launches of a variant of ``mhc_pre`` and of the norm, in turn."""

from __future__ import annotations

from typing import Any

import torch

from mhc.backends.triton import mhc_pre, norm
from mhc.backends.triton.kernel import in_turn, itself
from mhc.backends.triton.launch import Launch
from mhc.backends.triton.mhc_pre.tensors import NormedPre, norm_behind
from mhc.ops.mhc_pre import MhcPreGrads
from mhc.ops.mhc_pre_norm import MhcPreNormBackwardInputs, MhcPreNormGrads, MhcPreNormInputs, MhcPreNormOutputs


def _launches(inputs: MhcPreNormInputs, out: MhcPreNormOutputs, pre: Any, *normalise: Any) -> list[Launch]:
    reading = NormedPre(*inputs.pre)
    reading.norm = norm_behind(inputs, out)
    return [*pre(reading, out.pre), *(launch for each in normalise for launch in each(inputs, out))]


def _backward_launches(
    inputs: MhcPreNormBackwardInputs, out: MhcPreNormGrads, normalise: Any, pre: Any
) -> list[Launch]:
    grad_read = torch.empty_like(inputs.read)
    launches: list[Launch] = normalise(inputs, (grad_read, out.norm_weight))
    return launches + pre(inputs.pre(grad_read), MhcPreGrads(*out[:5]))


FORWARD = {
    name: in_turn([(pre, itself), *([] if name in norm.NORMALISE else [(norm.FORWARD, itself)])], _launches)
    for name, pre in mhc_pre.FORWARD.items()
}
BACKWARD = {
    name: in_turn([(norm.BACKWARD, itself), (pre, itself)], _backward_launches)
    for name, pre in mhc_pre.BACKWARD.items()
}
