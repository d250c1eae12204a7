"""``mhc_pre`` and its gradient in eager PyTorch, line by line the equations of :mod:`mhc.ops.mhc_pre`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mhc.backends.reference.read import norm, product, projection_grads, weighted
from mhc.ops.mhc_pre import MhcPreGrads, MhcPreOutputs


def forward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_eps: float,
    pre_eps: float,
    post_scale: float,
    precision: str,
) -> MhcPreOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); ``h_in`` is rounded to x's dtype at the end.

    ``x`` is [tokens, streams, hidden]; for the other shapes see :class:`mhc.ops.mhc_pre.MhcPreInputs`.
    """
    tokens, streams, _ = x.shape
    wide = x.to(phi.dtype)
    v = wide.flatten(1)
    r = norm(v, norm_eps)
    m = product(weighted(v, gamma), phi.T, precision) * r
    m_pre, m_post, m_res = m.split([streams, streams, streams * streams], dim=1)
    b_pre, b_post, b_res = bias.split([streams, streams, streams * streams])
    h_pre = torch.sigmoid(alpha[0] * m_pre + b_pre) + pre_eps
    h_post = post_scale * torch.sigmoid(alpha[1] * m_post + b_post)
    h_res = alpha[2] * m_res + b_res
    h_in = (h_pre.unsqueeze(-1) * wide).sum(dim=1)
    return MhcPreOutputs(h_in.to(x.dtype), h_post, h_res.reshape(tokens, streams, streams), m, r.squeeze(1))


def backward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
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
) -> MhcPreGrads:
    """Compute in ``phi``'s dtype; the gradient of ``x`` is rounded to its dtype at the end."""
    _, streams, hidden = x.shape
    parts = [streams, streams, streams * streams]
    needs_x, needs_phi, needs_alpha, needs_bias, needs_gamma = needs
    wide, grad_h_in, r = x.to(phi.dtype), grad_h_in.to(phi.dtype).unsqueeze(1), r.unsqueeze(1)
    v = wide.flatten(1)
    gates = torch.cat([gate.expand(part) for gate, part in zip(alpha, parts, strict=True)])
    s_pre, s_post, _ = torch.sigmoid(gates * m + bias).split(parts, dim=1)

    grad_h_pre = (grad_h_in * wide).sum(dim=2)
    dz = torch.cat(
        [grad_h_pre * s_pre * (1 - s_pre), post_scale * grad_h_post * s_post * (1 - s_post), grad_h_res.flatten(1)],
        dim=1,
    )
    through = projection_grads(gates * dz, v, phi, gamma, m, r, precision, (needs_x, needs_phi, needs_gamma))
    dx = None
    if through.v is not None:
        dx = (through.v.unflatten(1, (streams, hidden)) + (s_pre + pre_eps).unsqueeze(2) * grad_h_in).to(x.dtype)
    return MhcPreGrads(
        x=dx,
        phi=through.phi,
        # Over the tokens first: PyTorch adds the elements of a part, which is strided, up in one chain.
        alpha=torch.stack([part.sum() for part in (dz * m).sum(dim=0).split(parts)]) if needs_alpha else None,
        bias=dz.sum(dim=0) if needs_bias else None,
        gamma=through.gamma,
    )
