"""``expand``: one stream becomes n equal ones, before the first layer::

out_i = x      for i = 1 … n
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch


@dataclass(frozen=True)
class ExpandSpec:
    """``streams`` is n, ``hidden`` the width of one stream, ``dtype`` the dtype of ``x`` and the output."""

    streams: int
    hidden: int
    dtype: torch.dtype


class ExpandInputs(NamedTuple):
    """``x`` [tokens, hidden] in bf16, fp16 or fp32, contiguous, at least one token; ``streams`` is n."""

    x: torch.Tensor
    streams: int

    @property
    def spec(self) -> ExpandSpec:
        """Return the specialisation that these inputs ask for."""
        return ExpandSpec(self.streams, self.x.shape[-1], self.x.dtype)


class ExpandOutputs(NamedTuple):
    """``out`` [tokens, n, hidden] in x's dtype."""

    out: torch.Tensor


class ExpandBackwardInputs(NamedTuple):
    """``grad_out`` [tokens, n, hidden] of the output's dtype; the gradient needs nothing of the forward."""

    grad_out: torch.Tensor

    @property
    def spec(self) -> ExpandSpec:
        """Return the specialisation that these inputs ask for."""
        streams, hidden = self.grad_out.shape[-2:]
        return ExpandSpec(streams, hidden, self.grad_out.dtype)


class ExpandGrads(NamedTuple):
    """``x`` [tokens, hidden]: the sum over the streams, in fp32, rounded once."""

    x: torch.Tensor


def empty_outputs(inputs: ExpandInputs) -> ExpandOutputs:
    """Return uninitialised outputs, contiguous and on the input's device; tokens may have any leading dimensions."""
    *tokens, hidden = inputs.x.shape
    return ExpandOutputs(inputs.x.new_empty(*tokens, inputs.streams, hidden))


def empty_grads(inputs: ExpandBackwardInputs) -> ExpandGrads:
    """Return uninitialised gradients, contiguous and on the input's device."""
    *tokens, _, hidden = inputs.grad_out.shape
    return ExpandGrads(inputs.grad_out.new_empty(*tokens, hidden))
