"""Gradient of ``expand`` in eager PyTorch: the sum over the streams."""

from __future__ import annotations

import torch

from mhc.backends.reference.eager import widen, write
from mhc.ops.expand import ExpandBackwardInputs, ExpandGrads


def equations(grad_out: torch.Tensor) -> ExpandGrads:
    """Sum in fp32, or in float64 for the golden, and round once."""
    wide = torch.promote_types(grad_out.dtype, torch.float32)
    return ExpandGrads(grad_out.sum(dim=1, dtype=wide).to(grad_out.dtype))


def golden(inputs: ExpandBackwardInputs) -> ExpandGrads:
    """The same in float64."""
    return equations(*widen(inputs))


def run(inputs: ExpandBackwardInputs, out: ExpandGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the gradient; ``target`` changes nothing here."""
    write(equations(*inputs), out)
