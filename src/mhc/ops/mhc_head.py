"""``mhc_head``: read the streams out after the last layer, with weights of its own::

    r   = rsqrt(mean(v²) + norm_eps)                  v = flatten(x)
    m   = ((v · gamma) @ phiᵀ) · r
    w   = σ(alpha · m + bias) + pre_eps
    out = Σᵢ wᵢ · xᵢ

It is ``mhc_pre`` without the coefficients that write back. ``m`` and ``r`` are outputs too, for the backward.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops.needs import empty_needed
from mhc.ops.read import ReadSpec, spec_of


@dataclass(frozen=True)
class MhcHeadSpec(ReadSpec):
    """The specialisation of a kernel of ``mhc_head``."""

    @property
    def mixes(self) -> int:
        """Return the rows of ``phi``: n, one for each weight."""
        return self.streams


_spec = functools.cache(MhcHeadSpec)  # made at every call


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
    precision: str = "fp32"

    @property
    def spec(self) -> MhcHeadSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self)


class MhcHeadOutputs(NamedTuple):
    """``out`` [tokens, hidden] in x's dtype; ``m`` [tokens, n] and ``r`` [tokens] fp32."""

    out: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor


class MhcHeadBackwardInputs(NamedTuple):
    """The forward's inputs, its outputs ``m`` and ``r``, and ``grad_out`` of out's shape and dtype.

    ``needs`` says for each of x, phi, alpha, bias and gamma whether its gradient is asked for.
    """

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    m: torch.Tensor
    r: torch.Tensor
    grad_out: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    precision: str = "fp32"
    needs: tuple[bool, ...] = (True,) * 5

    @property
    def spec(self) -> MhcHeadSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self)


class MhcHeadGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's tensors.

    One is None where it is not asked for, and ``gamma`` where the forward has none.
    """

    x: torch.Tensor | None
    phi: torch.Tensor | None
    alpha: torch.Tensor | None
    bias: torch.Tensor | None
    gamma: torch.Tensor | None


def empty_outputs(inputs: MhcHeadInputs) -> MhcHeadOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    *tokens, streams, hidden = inputs.x.shape
    return MhcHeadOutputs(
        out=inputs.x.new_empty(*tokens, hidden),
        m=inputs.phi.new_empty(*tokens, streams),
        r=inputs.phi.new_empty(tokens),
    )


def empty_grads(inputs: MhcHeadBackwardInputs) -> MhcHeadGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device: those that are asked for."""
    return MhcHeadGrads(*empty_needed(inputs[:5], inputs.needs))
