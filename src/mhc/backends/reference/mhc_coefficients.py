"""``mhc_coefficients`` and its gradient in eager PyTorch: the equations of :mod:`mhc.ops.mhc_coefficients`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mhc.backends.reference.read import norm, product, projection_grads, weighted
from mhc.ops.mhc_coefficients import MhcCoefficientsGrads, MhcCoefficientsOutputs


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
) -> MhcCoefficientsOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden)."""
    v = x.to(phi.dtype).flatten(1)
    r = norm(v, norm_eps)
    m = product(weighted(v, gamma), phi.T, precision) * r
    parts = _parts(x, phi)
    m_pre, m_post, m_res = m.split(parts, dim=1)
    b_pre, b_post, b_res = bias.split(parts)
    h_pre = torch.sigmoid(alpha[0] * m_pre + b_pre) + pre_eps
    h_post = post_scale * torch.sigmoid(alpha[1] * m_post + b_post)
    return MhcCoefficientsOutputs(h_pre, h_post, alpha[2] * m_res + b_res, m, r.squeeze(1))


def backward(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    m: torch.Tensor,
    r: torch.Tensor,
    grad_h_pre: torch.Tensor,
    grad_h_post: torch.Tensor,
    grad_logits: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
    post_scale: float,
    precision: str,
    needs: Sequence[bool],
) -> MhcCoefficientsGrads:
    """Compute in ``phi``'s dtype; the gradient of ``x`` is rounded to its dtype at the end."""
    incoming = grad_h_pre, grad_h_post, grad_logits
    _, grads = wide_gradients(x, phi, alpha, bias, gamma, m, r, incoming, pre_eps, post_scale, precision, needs)
    return grads._replace(x=None if grads.x is None else grads.x.to(x.dtype))


def wide_gradients(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    m: torch.Tensor,
    r: torch.Tensor,
    incoming: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    pre_eps: float,
    post_scale: float,
    precision: str,
    needs: Sequence[bool],
) -> tuple[torch.Tensor, MhcCoefficientsGrads]:
    """Return h_pre and the gradients; the gradient of ``x`` is in ``phi``'s dtype."""
    parts = _parts(x, phi)
    needs_x, needs_phi, needs_alpha, needs_bias, needs_gamma = needs
    v, r = x.to(phi.dtype).flatten(1), r.unsqueeze(1)
    gates = torch.cat([gate.expand(part) for gate, part in zip(alpha, parts, strict=True)])
    s_pre, s_post, _ = torch.sigmoid(gates * m + bias).split(parts, dim=1)
    grad_h_pre, grad_h_post, grad_logits = incoming
    dz = torch.cat(
        [grad_h_pre * s_pre * (1 - s_pre), post_scale * grad_h_post * s_post * (1 - s_post), grad_logits], dim=1
    )
    through = projection_grads(gates * dz, v, phi, gamma, m, r, precision, (needs_x, needs_phi, needs_gamma))
    return s_pre + pre_eps, MhcCoefficientsGrads(
        x=None if through.v is None else through.v.unflatten(1, x.shape[1:]),
        phi=through.phi,
        # Over the tokens first: PyTorch adds the elements of a part, which is strided, up in one chain.
        alpha=torch.stack([part.sum() for part in (dz * m).sum(dim=0).split(parts)]) if needs_alpha else None,
        bias=dz.sum(dim=0) if needs_bias else None,
        gamma=through.gamma,
    )


def _parts(x: torch.Tensor, phi: torch.Tensor) -> list[int]:
    """Return the rows of phi for h_pre, for h_post and for the logits."""
    streams = x.shape[1]
    return [streams, streams, phi.shape[0] - 2 * streams]
