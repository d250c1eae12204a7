"""``mhc_head`` and its gradient in eager PyTorch, line by line the equations of :mod:`mhc.ops.mhc_head`."""

from __future__ import annotations

import torch

from mhc.ops.mhc_head import MhcHeadGrads, MhcHeadOutputs


def forward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_eps: float,
    pre_eps: float,
) -> MhcHeadOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); the output is rounded to x's dtype at the end."""
    wide = x.to(phi.dtype)
    v = wide.flatten(1)
    r = torch.rsqrt(v.square().mean(dim=1, keepdim=True) + norm_eps)
    weighted = v if gamma is None else v * gamma.flatten()
    weights = torch.sigmoid(alpha * (weighted @ phi.T) * r + bias) + pre_eps
    return MhcHeadOutputs((weights.unsqueeze(-1) * wide).sum(dim=1).to(x.dtype))


def backward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    grad_out: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
) -> MhcHeadGrads:
    """Compute in ``phi``'s dtype; the gradient of ``x`` is rounded to its dtype at the end."""
    _, streams, hidden = x.shape
    wide, grad_out = x.to(phi.dtype), grad_out.to(phi.dtype).unsqueeze(1)
    v = wide.flatten(1)
    r = torch.rsqrt(v.square().mean(dim=1, keepdim=True) + norm_eps)
    weighted = v if gamma is None else v * gamma.flatten()
    q = weighted @ phi.T
    s = torch.sigmoid(alpha * q * r + bias)

    dz = (grad_out * wide).sum(dim=2) * s * (1 - s)
    dq = alpha * dz * r
    dweighted = dq @ phi
    dr = (alpha * dz * q).sum(dim=1, keepdim=True)
    dv = (dweighted if gamma is None else dweighted * gamma.flatten()) - dr * r**3 * v / v.shape[1]
    dx = dv.unflatten(1, (streams, hidden)) + (s + pre_eps).unsqueeze(2) * grad_out
    return MhcHeadGrads(
        x=dx.to(x.dtype),
        phi=dq.T @ weighted,
        alpha=(dz * q * r).sum().reshape(1),
        bias=dz.sum(dim=0),
        gamma=None if gamma is None else (dweighted * v).sum(dim=0).reshape(streams, hidden),
    )
