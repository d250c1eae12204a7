"""``mhc_head`` and its gradient in eager PyTorch, line by line the equations of :mod:`mhc.ops.mhc_head`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mhc.backends.reference.read import norm, product, projection_grads, weighted
from mhc.ops.mhc_head import MhcHeadGrads, MhcHeadOutputs


def forward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_eps: float,
    pre_eps: float,
    precision: str,
) -> MhcHeadOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); the output is rounded to x's dtype at the end."""
    wide = x.to(phi.dtype)
    v = wide.flatten(1)
    r = norm(v, norm_eps)
    m = product(weighted(v, gamma), phi.T, precision) * r
    weights = torch.sigmoid(alpha * m + bias) + pre_eps
    out = (weights.unsqueeze(-1) * wide).sum(dim=1)
    return MhcHeadOutputs(out.to(x.dtype), m, r.squeeze(1))


def backward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    m: torch.Tensor,
    r: torch.Tensor,
    grad_out: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
    precision: str,
    needs: Sequence[bool],
) -> MhcHeadGrads:
    """Compute in ``phi``'s dtype; the gradient of ``x`` is rounded to its dtype at the end."""
    _, streams, hidden = x.shape
    needs_x, needs_phi, needs_alpha, needs_bias, needs_gamma = needs
    wide, grad_out, r = x.to(phi.dtype), grad_out.to(phi.dtype).unsqueeze(1), r.unsqueeze(1)
    v = wide.flatten(1)
    s = torch.sigmoid(alpha * m + bias)

    dz = (grad_out * wide).sum(dim=2) * s * (1 - s)
    through = projection_grads(alpha * dz, v, phi, gamma, m, r, precision, (needs_x, needs_phi, needs_gamma))
    dx = None
    if through.v is not None:
        dx = (through.v.unflatten(1, (streams, hidden)) + (s + pre_eps).unsqueeze(2) * grad_out).to(x.dtype)
    return MhcHeadGrads(
        x=dx,
        phi=through.phi,
        alpha=(dz * m).sum().reshape(1) if needs_alpha else None,
        bias=dz.sum(dim=0) if needs_bias else None,
        gamma=through.gamma,
    )
