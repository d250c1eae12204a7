"""``mhc_single_pass_fp8`` in eager PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from mhc.backends.reference import mhc_single_pass
from mhc.backends.reference.read import quantised
from mhc.ops.mhc_single_pass_fp8 import MhcSinglePassFp8Outputs


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
    return MhcSinglePassFp8Outputs(*quantised(h_in.to(phi.dtype), power_of_two_scales), *others)
