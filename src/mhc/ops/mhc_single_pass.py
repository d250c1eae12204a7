"""``mhc_single_pass``: all that stands between two layers in the single-pass form of DeepSeek-V4.1::

    out_i  = Σⱼ h_res[i, j] · x_j + h_post_i · y                                    (mhc_post)
    read   = Σᵢ preᵢ · out_i                                                        (mhc_read)
    h_in   = read · s · norm_weight      s = rsqrt(mean(read²) + norm_eps)          (RMSNorm before the next layer)
    next_h_pre, next_h_post, next_logits, m, r = mhc_coefficients(out, phi, alpha, bias, gamma)

``h_post`` and ``h_res`` (after the mixer) belong to the layer that gave ``y``, and so does ``pre``: in this form a
layer reads with the weights that the layer before it made. So nothing that is read waits for the projection of ``out``.

The streams ``out`` and ``read`` are rounded to x's dtype before they are used, so the results equal the results of
the operators in turn. ``out``, ``read``, ``s``, ``m`` and ``r`` are kept for the backward. There the gradient of
``read`` is rounded to x's dtype, as the gradient of a tensor between two operators is, and so is the gradient of
``out``: the sum of ``grad_out`` and of what the read and the coefficients give.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops.mhc_coefficients import MhcCoefficientsSpec
from mhc.ops.needs import empty_needed
from mhc.ops.read import spec_of


@dataclass(frozen=True)
class MhcSinglePassSpec(MhcCoefficientsSpec):
    """The specialisation of a kernel of ``mhc_single_pass``: the same as for its ``mhc_coefficients``."""


_spec = functools.cache(MhcSinglePassSpec)  # made at every call


class MhcSinglePassInputs(NamedTuple):
    """``x`` [tokens, n, hidden] and ``y`` [tokens, hidden] in one dtype of bf16, fp16, fp32; ``h_post`` [tokens, n],
    ``h_res`` [tokens, n, n], ``pre`` [tokens, n], ``phi`` [2n+c, n·hidden], ``alpha`` [3], ``bias`` [2n+c], ``gamma``
    [n, hidden] or None and ``norm_weight`` [hidden], all fp32. All contiguous, on one device, at least one token.
    """

    x: torch.Tensor
    y: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    pre: torch.Tensor
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
    def spec(self) -> MhcSinglePassSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale, _logits_of(self))


class MhcSinglePassOutputs(NamedTuple):
    """``h_in`` [tokens, hidden] in x's dtype; ``next_h_pre`` and ``next_h_post`` [tokens, n] and ``next_logits``
    [tokens, c] fp32; ``out`` [tokens, n, hidden] and ``read`` [tokens, hidden] in x's dtype; ``s`` [tokens], ``m``
    [tokens, 2n+c] and ``r`` [tokens] fp32.
    """

    h_in: torch.Tensor
    next_h_pre: torch.Tensor
    next_h_post: torch.Tensor
    next_logits: torch.Tensor
    out: torch.Tensor
    read: torch.Tensor
    s: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor


class MhcSinglePassBackwardInputs(NamedTuple):
    """The forward's inputs, its outputs ``out``, ``read``, ``s``, ``m`` and ``r``, and gradients of the shapes and
    dtypes of h_in, next_h_pre, next_h_post, next_logits and out.

    ``needs`` says for each of the ten tensors of the forward whether its gradient is asked for.
    """

    x: torch.Tensor
    y: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    pre: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    norm_weight: torch.Tensor
    out: torch.Tensor
    read: torch.Tensor
    s: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor
    grad_h_in: torch.Tensor
    grad_next_h_pre: torch.Tensor
    grad_next_h_post: torch.Tensor
    grad_next_logits: torch.Tensor
    grad_out: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"
    needs: tuple[bool, ...] = (True,) * 10

    @property
    def spec(self) -> MhcSinglePassSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale, _logits_of(self))


class MhcSinglePassGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's tensors.

    One is None where it is not asked for, and ``gamma`` where the forward has none.
    """

    x: torch.Tensor | None
    y: torch.Tensor | None
    h_post: torch.Tensor | None
    h_res: torch.Tensor | None
    pre: torch.Tensor | None
    phi: torch.Tensor | None
    alpha: torch.Tensor | None
    bias: torch.Tensor | None
    gamma: torch.Tensor | None
    norm_weight: torch.Tensor | None


def _logits_of(inputs: MhcSinglePassInputs | MhcSinglePassBackwardInputs) -> int:
    return inputs.phi.shape[0] - 2 * inputs.x.shape[-2]


def empty_outputs(inputs: MhcSinglePassInputs) -> MhcSinglePassOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    *tokens, streams, hidden = inputs.x.shape
    mixes = inputs.phi.shape[0]
    return MhcSinglePassOutputs(
        h_in=inputs.x.new_empty(*tokens, hidden),
        next_h_pre=inputs.phi.new_empty(*tokens, streams),
        next_h_post=inputs.phi.new_empty(*tokens, streams),
        next_logits=inputs.phi.new_empty(*tokens, mixes - 2 * streams),
        out=inputs.x.new_empty(inputs.x.shape),
        read=inputs.x.new_empty(*tokens, hidden),
        s=inputs.phi.new_empty(tokens),
        m=inputs.phi.new_empty(*tokens, mixes),
        r=inputs.phi.new_empty(tokens),
    )


def empty_grads(inputs: MhcSinglePassBackwardInputs) -> MhcSinglePassGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device: those that are asked for."""
    return MhcSinglePassGrads(*empty_needed(inputs[:10], inputs.needs))
