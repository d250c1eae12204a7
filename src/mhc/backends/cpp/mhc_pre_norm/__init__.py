"""``mhc_pre_norm`` and its gradient: the kernels of ``mhc_pre`` that are chosen, and those of the norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mhc.backends.cpp import norm
from mhc.backends.in_turn import InTurn, like, loaded, part
from mhc.ops.mhc_pre import MhcPreGrads, MhcPreSpec
from mhc.ops.mhc_pre_norm import MhcPreNormBackwardInputs, MhcPreNormGrads, MhcPreNormInputs, MhcPreNormOutputs


class _Forward(InTurn):
    def _calls(self, inputs: MhcPreNormInputs, out: MhcPreNormOutputs, rooms: Sequence[Any]) -> Any:
        return (inputs.pre, out.pre), (inputs, out)


class _Backward(InTurn):
    """A gradient has the same bits whatever else is asked for."""

    def _rooms(self, inputs: MhcPreNormBackwardInputs) -> Sequence[Callable[[], torch.Tensor]]:
        return [like(inputs.read)]

    def _calls(self, inputs: MhcPreNormBackwardInputs, out: MhcPreNormGrads, rooms: Sequence[Any]) -> Any:
        [grad_read] = rooms
        return (inputs, (grad_read, out.norm_weight)), (inputs.pre(grad_read), MhcPreGrads(*out[:5]))


FORWARD = _Forward(loaded("cpp", "mhc_pre", "forward", MhcPreSpec), part(norm.FORWARD))
BACKWARD = _Backward(part(norm.BACKWARD), loaded("cpp", "mhc_pre", "backward", MhcPreSpec))
