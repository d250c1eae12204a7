"""``mhc_head``: read the streams out after the last layer, with weights of its own::

    r   = rsqrt(mean(v²) + norm_eps)                  v = flatten(x)
    w   = σ(alpha · ((v · gamma) @ phiᵀ) · r + bias) + pre_eps
    out = Σᵢ wᵢ · xᵢ

It is ``mhc_pre`` without the coefficients that write back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops.read import ReadSpec


@dataclass(frozen=True)
class MhcHeadSpec(ReadSpec):
    """The specialisation of a kernel of ``mhc_head``."""

    @property
    def mixes(self) -> int:
        """Return the rows of ``phi``: n, one for each weight."""
        return self.streams


class MhcHeadInputs(NamedTuple):
    """``x`` [tokens, n, hidden] in bf16, fp16 or fp32; ``phi`` [n, n·hidden], ``alpha`` [1], ``bias`` [n] and ``gamma``
    [n, hidden] or None, all fp32. All contiguous, on one device, at least one token.
    """

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6

    @property
    def spec(self) -> MhcHeadSpec:
        """Return the specialisation that these inputs ask for."""
        return MhcHeadSpec.of(self)


class MhcHeadOutputs(NamedTuple):
    """``out`` [tokens, hidden] in x's dtype."""

    out: torch.Tensor


class MhcHeadBackwardInputs(NamedTuple):
    """The forward's inputs, and ``grad_out`` of its output's shape and dtype."""

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    grad_out: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6

    @property
    def spec(self) -> MhcHeadSpec:
        """Return the specialisation that these inputs ask for."""
        return MhcHeadSpec.of(self)


class MhcHeadGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's tensors; ``gamma`` is None where the forward has none."""

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None


def empty_outputs(inputs: MhcHeadInputs) -> MhcHeadOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device."""
    return MhcHeadOutputs(inputs.x.new_empty(inputs.x.shape[0], inputs.x.shape[2]))


def empty_grads(inputs: MhcHeadBackwardInputs) -> MhcHeadGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device."""
    return MhcHeadGrads(*(None if tensor is None else torch.empty_like(tensor) for tensor in inputs[:5]))
