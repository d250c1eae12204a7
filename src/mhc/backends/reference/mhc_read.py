"""``mhc_read`` and its gradient in eager PyTorch, line by line the equation of :mod:`mhc.ops.mhc_read`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mhc.ops.mhc_read import MhcReadGrads, MhcReadOutputs


def forward(x: torch.Tensor, pre: torch.Tensor) -> MhcReadOutputs:
    """Compute in the dtype of ``pre`` (fp32, or float64 for the golden); the output is rounded to x's dtype."""
    return MhcReadOutputs((pre.unsqueeze(-1) * x.to(pre.dtype)).sum(dim=1).to(x.dtype))


def backward(x: torch.Tensor, pre: torch.Tensor, grad_h_in: torch.Tensor, needs: Sequence[bool]) -> MhcReadGrads:
    """Compute in the dtype of ``pre``; the gradient of ``x`` is rounded to its dtype at the end."""
    needs_x, needs_pre = needs
    grad = grad_h_in.to(pre.dtype).unsqueeze(1)
    return MhcReadGrads(
        x=(pre.unsqueeze(-1) * grad).to(x.dtype) if needs_x else None,
        pre=(grad * x.to(pre.dtype)).sum(dim=2) if needs_pre else None,
    )
