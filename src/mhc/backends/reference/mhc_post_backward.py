"""Gradients of ``mhc_post`` in eager PyTorch, written out; the golden is autograd in float64 instead."""

from __future__ import annotations

import torch

from mhc.backends.reference import mhc_post
from mhc.backends.reference.eager import gradients, widen, write
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads


def equations(
    x: torch.Tensor, y: torch.Tensor, h_post: torch.Tensor, h_res: torch.Tensor, grad_out: torch.Tensor
) -> MhcPostGrads:
    """Compute in the dtype of ``h_res``; the gradients of ``x`` and ``y`` are rounded to their dtype at the end."""
    grad = grad_out.to(h_res.dtype)
    return MhcPostGrads(
        x=(h_res.mT @ grad).to(x.dtype),
        y=(h_post.unsqueeze(-1) * grad).sum(dim=1).to(y.dtype),
        h_post=(grad * y.to(h_res.dtype).unsqueeze(1)).sum(dim=2),
        h_res=grad @ x.to(h_res.dtype).mT,
    )


def golden(inputs: MhcPostBackwardInputs) -> MhcPostGrads:
    """Autograd through the forward's equations in float64."""
    *tensors, grad_out = widen(inputs)
    return MhcPostGrads(*gradients(mhc_post.equations, tensors, (grad_out,)))


def run(inputs: MhcPostBackwardInputs, out: MhcPostGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(equations(*inputs), out)
