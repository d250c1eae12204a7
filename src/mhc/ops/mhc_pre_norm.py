"""``mhc_pre_norm``: ``mhc_pre``, and the RMSNorm that stands before the layer::

    read, h_post, h_res, m, r = mhc_pre(x, phi, alpha, bias, gamma)
    h_in = read · s · norm_weight      s = rsqrt(mean(read²) + norm_eps)

``read`` is rounded to x's dtype before it is normalised, so the results equal the results of the two in turn.
``norm_eps`` belongs to both norms. ``read``, ``s``, ``m`` and ``r`` are kept for the backward. There the gradient of
``read`` is rounded to x's dtype, as the gradient of a tensor between two operators is.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops import mhc_pre
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreInputs, MhcPreOutputs, MhcPreSpec
from mhc.ops.needs import empty_needed
from mhc.ops.read import spec_of


@dataclass(frozen=True)
class MhcPreNormSpec(MhcPreSpec):
    """The specialisation of a kernel of ``mhc_pre_norm``: the same as for its ``mhc_pre``."""


_spec = functools.cache(MhcPreNormSpec)  # made at every call


class MhcPreNormInputs(NamedTuple):
    """The inputs of ``mhc_pre``, and ``norm_weight`` [hidden] fp32."""

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    norm_weight: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"

    @property
    def spec(self) -> MhcPreNormSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale)

    @property
    def pre(self) -> MhcPreInputs:
        """Return the inputs of ``mhc_pre``."""
        return MhcPreInputs(*self[:5], *self[6:])


class MhcPreNormOutputs(NamedTuple):
    """``h_in`` and ``read`` [tokens, hidden] in x's dtype; ``h_post`` [tokens, n], ``h_res`` [tokens, n, n], ``s``
    [tokens], ``m`` [tokens, n²+2n] and ``r`` [tokens], all fp32.
    """

    h_in: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    read: torch.Tensor
    s: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor

    @property
    def pre(self) -> MhcPreOutputs:
        """Return the outputs of ``mhc_pre``."""
        return MhcPreOutputs(self.read, self.h_post, self.h_res, self.m, self.r)


class MhcPreNormBackwardInputs(NamedTuple):
    """The forward's inputs, its outputs ``read``, ``s``, ``m`` and ``r``, and gradients of the shapes and dtypes of
    h_in, h_post and h_res.

    ``needs`` says for each of the six tensors of the forward whether its gradient is asked for.
    """

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    norm_weight: torch.Tensor
    read: torch.Tensor
    s: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor
    grad_h_in: torch.Tensor
    grad_h_post: torch.Tensor
    grad_h_res: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"
    needs: tuple[bool, ...] = (True,) * 6

    @property
    def spec(self) -> MhcPreNormSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale)

    def pre(self, grad_read: torch.Tensor) -> MhcPreBackwardInputs:
        """Return the inputs of the backward of ``mhc_pre``."""
        incoming = grad_read, self.grad_h_post, self.grad_h_res
        return MhcPreBackwardInputs(*self[:5], self.m, self.r, *incoming, *self[13:17], tuple(self.needs[:5]))


class MhcPreNormGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's tensors.

    One is None where it is not asked for, and ``gamma`` where the forward has none.
    """

    x: torch.Tensor | None
    phi: torch.Tensor | None
    alpha: torch.Tensor | None
    bias: torch.Tensor | None
    gamma: torch.Tensor | None
    norm_weight: torch.Tensor | None


def empty_outputs(inputs: MhcPreNormInputs) -> MhcPreNormOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    read, h_post, h_res, m, r = mhc_pre.empty_outputs(inputs.pre)
    return MhcPreNormOutputs(torch.empty_like(read), h_post, h_res, read, torch.empty_like(r), m, r)


def empty_grads(inputs: MhcPreNormBackwardInputs) -> MhcPreNormGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device: those that are asked for."""
    return MhcPreNormGrads(*empty_needed(inputs[:6], inputs.needs))
