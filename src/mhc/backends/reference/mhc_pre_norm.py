"""``mhc_pre_norm`` and its gradient in eager PyTorch: ``mhc_pre`` and the norm behind it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mhc.backends.reference import mhc_pre
from mhc.backends.reference.read import normed, normed_grads
from mhc.ops.mhc_pre_norm import MhcPreNormGrads, MhcPreNormOutputs


def forward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_weight: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
    post_scale: float,
    precision: str,
) -> MhcPreNormOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); what is in x's dtype is rounded to it."""
    read, h_post, h_res, m, r = mhc_pre.forward(x, phi, alpha, bias, gamma, norm_eps, pre_eps, post_scale, precision)
    h_in, s = normed(read, norm_weight, norm_eps)
    return MhcPreNormOutputs(h_in, h_post, h_res, read, s, m, r)


def backward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_weight: torch.Tensor,
    read: torch.Tensor,
    s: torch.Tensor,
    m: torch.Tensor,
    r: torch.Tensor,
    grad_h_in: torch.Tensor,
    grad_h_post: torch.Tensor,
    grad_h_res: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
    post_scale: float,
    precision: str,
    needs: Sequence[bool],
) -> MhcPreNormGrads:
    """Compute in ``phi``'s dtype; the gradients of ``read`` and ``x`` are rounded to x's dtype."""
    grad_read, grad_weight = normed_grads(read, norm_weight, s, grad_h_in)
    incoming = (m, r, grad_read, grad_h_post, grad_h_res)
    options = (norm_eps, pre_eps, post_scale, precision)
    grads = mhc_pre.backward(x, phi, alpha, bias, gamma, *incoming, *options, needs[:5])
    return MhcPreNormGrads(*grads, grad_weight if needs[5] else None)
