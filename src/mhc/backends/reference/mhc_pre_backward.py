"""Gradients of ``mhc_pre`` in eager PyTorch, written out; the golden is autograd in float64 instead."""

from __future__ import annotations

import torch

from mhc.backends.reference import mhc_pre
from mhc.backends.reference.eager import gradients, widen, write
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads


def equations(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    grad_h_in: torch.Tensor,
    grad_h_post: torch.Tensor,
    grad_h_res: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
) -> MhcPreGrads:
    """Compute in ``phi``'s dtype; the gradient of ``x`` is rounded to its dtype at the end."""
    _, n, hidden = x.shape
    parts = [n, n, n * n]
    streams, grad_h_in = x.to(phi.dtype), grad_h_in.to(phi.dtype).unsqueeze(1)
    v = streams.flatten(1)
    r = torch.rsqrt(v.square().mean(dim=1, keepdim=True) + norm_eps)
    weighted = v if gamma is None else v * gamma.flatten()
    q = weighted @ phi.T
    m = q * r
    gates = torch.cat([gate.expand(part) for gate, part in zip(alpha, parts, strict=True)])
    s_pre, s_post, _ = torch.sigmoid(gates * m + bias).split(parts, dim=1)

    grad_h_pre = (grad_h_in * streams).sum(dim=2)
    dz = torch.cat(
        [grad_h_pre * s_pre * (1 - s_pre), 2 * grad_h_post * s_post * (1 - s_post), grad_h_res.flatten(1)], dim=1
    )
    dm = gates * dz
    dq = dm * r
    dweighted = dq @ phi
    dr = (dm * q).sum(dim=1, keepdim=True)
    dv = (dweighted if gamma is None else dweighted * gamma.flatten()) - dr * r**3 * v / v.shape[1]
    dx = dv.unflatten(1, (n, hidden)) + (s_pre + pre_eps).unsqueeze(2) * grad_h_in
    return MhcPreGrads(
        x=dx.to(x.dtype),
        phi=dq.T @ weighted,
        alpha=torch.stack([part.sum() for part in (dz * m).split(parts, dim=1)]),
        bias=dz.sum(dim=0),
        gamma=None if gamma is None else (dweighted * v).sum(dim=0).reshape(n, hidden),
    )


def golden(inputs: MhcPreBackwardInputs) -> MhcPreGrads:
    """Autograd through the forward's equations in float64."""
    x, phi, alpha, bias, gamma, *grads, norm_eps, pre_eps = widen(inputs)
    found = gradients(mhc_pre.equations, (x, phi, alpha, bias, gamma, norm_eps, pre_eps), grads)
    return MhcPreGrads(*found[:5])


def run(inputs: MhcPreBackwardInputs, out: MhcPreGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(equations(*inputs), out)
