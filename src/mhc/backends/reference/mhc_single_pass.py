"""``mhc_single_pass`` and its gradient in eager PyTorch: the equations of the operators that it is made of."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mhc.backends.reference import mhc_coefficients, mhc_post, mhc_read
from mhc.backends.reference.read import normed, normed_grads
from mhc.ops.mhc_single_pass import MhcSinglePassGrads, MhcSinglePassOutputs


def forward(
    x: torch.Tensor,
    y: torch.Tensor,
    h_post: torch.Tensor,
    h_res: torch.Tensor,
    pre: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_weight: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
    post_scale: float,
    precision: str,
) -> MhcSinglePassOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); what is in x's dtype is rounded to it."""
    [out] = mhc_post.forward(x, y, h_post, h_res)
    [read] = mhc_read.forward(out, pre)
    h_in, s = normed(read, norm_weight, norm_eps)
    *coefficients, m, r = mhc_coefficients.forward(
        out, phi, alpha, bias, gamma, norm_eps, pre_eps, post_scale, precision
    )
    return MhcSinglePassOutputs(h_in, *coefficients, out, read, s, m, r)


def backward(
    x: torch.Tensor,
    y: torch.Tensor,
    h_post: torch.Tensor,
    h_res: torch.Tensor,
    pre: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_weight: torch.Tensor,
    out: torch.Tensor,
    read: torch.Tensor,
    s: torch.Tensor,
    m: torch.Tensor,
    r: torch.Tensor,
    grad_h_in: torch.Tensor,
    grad_next_h_pre: torch.Tensor,
    grad_next_h_post: torch.Tensor,
    grad_next_logits: torch.Tensor,
    grad_out: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
    post_scale: float,
    precision: str,
    needs: Sequence[bool],
) -> MhcSinglePassGrads:
    """Compute in ``phi``'s dtype; what has x's dtype is rounded to it, also the gradients of ``read`` and ``out``."""
    needs_post, needs_pre, needs_mapping, needs_weight = tuple(needs[:4]), needs[4], needs[5:9], needs[9]
    grad_read, grad_weight = normed_grads(read, norm_weight, s, grad_h_in)
    of_read = mhc_read.backward(out.to(phi.dtype), pre, grad_read, (any(needs_post), needs_pre))
    incoming = grad_next_h_pre, grad_next_h_post, grad_next_logits
    _, mapped = mhc_coefficients.wide_gradients(
        out, phi, alpha, bias, gamma, m, r, incoming, pre_eps, post_scale, precision, (any(needs_post), *needs_mapping)
    )
    written: Sequence[torch.Tensor | None] = (None,) * 4
    if of_read.x is not None and mapped.x is not None:
        to_out = (mapped.x + of_read.x + grad_out.to(phi.dtype)).to(out.dtype)
        written = mhc_post.backward(x, y, h_post, h_res, to_out, needs_post)
    return MhcSinglePassGrads(*written, of_read.pre, *mapped[1:], grad_weight if needs_weight else None)
