"""``mhc_pre_norm_fp8`` in eager PyTorch."""

from __future__ import annotations

import torch

from mhc.backends.reference import mhc_pre_norm
from mhc.backends.reference.read import quantised
from mhc.ops.mhc_pre_norm_fp8 import MhcPreNormFp8Outputs


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
    power_of_two_scales: bool,
) -> MhcPreNormFp8Outputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); in float64 nothing is rounded to fp8."""
    options = (norm_eps, pre_eps, post_scale, precision)
    h_in, *others = mhc_pre_norm.forward(x, phi, alpha, bias, gamma, norm_weight, *options)
    return MhcPreNormFp8Outputs(*quantised(h_in.to(phi.dtype), power_of_two_scales), *others)
