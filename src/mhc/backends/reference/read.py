"""Equations that the operators that read share."""

from __future__ import annotations

from typing import NamedTuple

import torch

from mhc.ops.mhc_single_pass_fp8 import FP8, GROUP, LEAST, MOST

_DROPPED_BITS = 13  # of fp32's 23 bits after the point, TF32 has 10


def norm(v: torch.Tensor, norm_eps: float) -> torch.Tensor:
    """Return the reciprocal of each token's root mean square, [tokens, 1]; ``v`` is [tokens, width]."""
    return torch.rsqrt(v.square().mean(dim=1, keepdim=True) + norm_eps)


def normed(read: torch.Tensor, norm_weight: torch.Tensor, norm_eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what is read, [tokens, hidden], behind an RMSNorm with a weight, and ``s`` [tokens] of that."""
    wide = read.to(norm_weight.dtype)
    s = norm(wide, norm_eps)
    return (wide * s * norm_weight).to(read.dtype), s.squeeze(1)


def normed_grads(
    read: torch.Tensor, norm_weight: torch.Tensor, s: torch.Tensor, grad_h_in: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of ``read``, rounded to its dtype, and of the weight."""
    grad, s = grad_h_in.to(norm_weight.dtype), s.unsqueeze(1)
    unit = read.to(norm_weight.dtype) * s
    slope = (grad * norm_weight * unit).mean(dim=1, keepdim=True)
    return (s * (grad * norm_weight - slope * unit)).to(read.dtype), (grad * unit).sum(dim=0)


def quantised(h_in: torch.Tensor, power_of_two_scales: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what is normalised in fp8, and its scales (:mod:`mhc.ops.mhc_single_pass_fp8`); float64 is not rounded."""
    v = h_in.unflatten(1, (-1, GROUP))
    scale = v.abs().amax(dim=2).clamp(min=LEAST) / MOST
    if power_of_two_scales:
        mantissa, _ = torch.frexp(scale)  # from 0.5 on and below 1, and inf of inf
        scale = torch.where(mantissa > 0.5, scale / mantissa.clamp(max=1), scale)
    quotient = (v / scale.unsqueeze(2)).flatten(1)
    return quotient if h_in.dtype == torch.float64 else quotient.to(FP8), scale


def weighted(v: torch.Tensor, gamma: torch.Tensor | None) -> torch.Tensor:
    """Return ``v`` times gamma, the left operand of the projection; [tokens, width] both."""
    return v if gamma is None else v * gamma.flatten()


class ProjectionGrads(NamedTuple):
    """Gradients through the projection; one is None where it is not asked for, and ``gamma`` where there is none."""

    v: torch.Tensor | None
    phi: torch.Tensor | None
    gamma: torch.Tensor | None


def projection_grads(
    dm: torch.Tensor,
    v: torch.Tensor,
    phi: torch.Tensor,
    gamma: torch.Tensor | None,
    m: torch.Tensor,
    r: torch.Tensor,
    precision: str,
    needs: tuple[bool, bool, bool],
) -> ProjectionGrads:
    """Return the gradients of v, phi and gamma from ``dm``, the gradient of ``m = ((v · gamma) @ phiᵀ) · r``.

    ``m`` and ``dm`` are [tokens, mixes], ``v`` is [tokens, width] and ``r`` [tokens, 1]; the gradient of v has the part
    through the norm too. ``needs`` says for each of the three whether it is asked for.
    """
    needs_v, needs_phi, needs_gamma = needs
    dq = dm * r  # the gradient of the projection, m / r
    dv = dphi = dgamma = None
    if needs_v or needs_gamma:
        dweighted = product(dq, phi, precision)
    if needs_v:
        slope = (dm * m).sum(dim=1, keepdim=True) * r.square() / v.shape[1]
        dv = weighted(dweighted, gamma) - slope * v
    if needs_phi:
        dphi = product(dq.T, weighted(v, gamma), precision)
    if needs_gamma and gamma is not None:
        dgamma = (dweighted * v).sum(dim=0).view_as(gamma)
    return ProjectionGrads(dv, dphi, dgamma)


def product(a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
    """Return the product of two matrices in ``precision`` (:mod:`mhc.ops.read`); float64 stays exact."""
    if precision == "tf32" and a.dtype == torch.float32:
        return to_tf32(a) @ to_tf32(b)
    return a @ b


def to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Return an fp32 tensor rounded to TF32, to nearest and to even; infinities and NaN stay as they are."""
    bits = tensor.contiguous().view(torch.int32)
    half = (1 << (_DROPPED_BITS - 1)) - 1 + ((bits >> _DROPPED_BITS) & 1)
    rounded = ((bits + half) & -(1 << _DROPPED_BITS)).view(torch.float32)
    return torch.where(torch.isfinite(tensor), rounded, tensor)
