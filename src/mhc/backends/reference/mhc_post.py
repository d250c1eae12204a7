"""``mhc_post`` in eager PyTorch, line by line the equation of :mod:`mhc.ops.mhc_post`."""

from __future__ import annotations

import torch

from mhc.backends.reference.eager import widen, write
from mhc.ops.mhc_post import MhcPostInputs, MhcPostOutputs


def equations(x: torch.Tensor, y: torch.Tensor, h_post: torch.Tensor, h_res: torch.Tensor) -> MhcPostOutputs:
    """Compute in the dtype of ``h_res`` (fp32, or float64 for the golden); the output is rounded to x's dtype."""
    mixed = h_res @ x.to(h_res.dtype)
    written = h_post.unsqueeze(-1) * y.to(h_res.dtype).unsqueeze(1)
    return MhcPostOutputs((mixed + written).to(x.dtype))


def golden(inputs: MhcPostInputs) -> MhcPostOutputs:
    """The same equations in float64 throughout."""
    return equations(*widen(inputs))


def run(inputs: MhcPostInputs, out: MhcPostOutputs, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(equations(*inputs), out)
