"""Gradients of ``mhc_head`` in eager PyTorch, written out; the golden is autograd in float64 instead."""

from __future__ import annotations

import torch

from mhc.backends.reference import mhc_head
from mhc.backends.reference.eager import gradients, widen, write
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads


def equations(
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
    _, n, hidden = x.shape
    streams, grad_out = x.to(phi.dtype), grad_out.to(phi.dtype).unsqueeze(1)
    v = streams.flatten(1)
    r = torch.rsqrt(v.square().mean(dim=1, keepdim=True) + norm_eps)
    weighted = v if gamma is None else v * gamma.flatten()
    q = weighted @ phi.T
    s = torch.sigmoid(alpha * q * r + bias)

    dz = (grad_out * streams).sum(dim=2) * s * (1 - s)
    dq = alpha * dz * r
    dweighted = dq @ phi
    dr = (alpha * dz * q).sum(dim=1, keepdim=True)
    dv = (dweighted if gamma is None else dweighted * gamma.flatten()) - dr * r**3 * v / v.shape[1]
    dx = dv.unflatten(1, (n, hidden)) + (s + pre_eps).unsqueeze(2) * grad_out
    return MhcHeadGrads(
        x=dx.to(x.dtype),
        phi=dq.T @ weighted,
        alpha=(dz * q * r).sum().reshape(1),
        bias=dz.sum(dim=0),
        gamma=None if gamma is None else (dweighted * v).sum(dim=0).reshape(n, hidden),
    )


def golden(inputs: MhcHeadBackwardInputs) -> MhcHeadGrads:
    """Autograd through the forward's equations in float64."""
    x, phi, alpha, bias, gamma, grad_out, norm_eps, pre_eps = widen(inputs)
    found = gradients(mhc_head.equations, (x, phi, alpha, bias, gamma, norm_eps, pre_eps), (grad_out,))
    return MhcHeadGrads(*found[:5])


def run(inputs: MhcHeadBackwardInputs, out: MhcHeadGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(equations(*inputs), out)
