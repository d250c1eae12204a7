"""``expand`` and its gradient in eager PyTorch, line by line the equations of :mod:`mhc.ops.expand`."""

from __future__ import annotations

import torch

from mhc.ops.expand import ExpandGrads, ExpandOutputs


def forward(x: torch.Tensor, streams: int) -> ExpandOutputs:
    """Copy ``x`` [tokens, hidden] to every stream."""
    return ExpandOutputs(x.unsqueeze(1).expand(-1, streams, -1))


def backward(grad_out: torch.Tensor) -> ExpandGrads:
    """Sum in fp32, or in float64 for the golden, and round once."""
    wide = torch.promote_types(grad_out.dtype, torch.float32)
    return ExpandGrads(grad_out.sum(dim=1, dtype=wide).to(grad_out.dtype))
