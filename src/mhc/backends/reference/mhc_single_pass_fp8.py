"""``mhc_single_pass_fp8`` in eager PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from mhc.backends.reference import mhc_single_pass
from mhc.ops.mhc_single_pass_fp8 import FP8, GROUP, LEAST, MOST, MhcSinglePassFp8Outputs


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
    power_of_two_scales: bool,
) -> MhcSinglePassFp8Outputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); in float64 nothing is rounded to fp8."""
    mapping: Any = (phi, alpha, bias, gamma, norm_weight, norm_eps, pre_eps, post_scale, precision)
    h_in, *others = mhc_single_pass.forward(x, y, h_post, h_res, pre, *mapping)
    v = h_in.to(phi.dtype).unflatten(1, (-1, GROUP))
    scale = v.abs().amax(dim=2).clamp(min=LEAST) / MOST
    if power_of_two_scales:
        mantissa, _ = torch.frexp(scale)  # from 0.5 on and below 1, and inf of inf
        scale = torch.where(mantissa > 0.5, scale / mantissa.clamp(max=1), scale)
    quotient = (v / scale.unsqueeze(2)).flatten(1)
    return MhcSinglePassFp8Outputs(quotient if phi.dtype == torch.float64 else quotient.to(FP8), scale, *others)
