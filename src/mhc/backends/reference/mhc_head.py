"""``mhc_head`` in eager PyTorch, line by line the equation of :mod:`mhc.ops.mhc_head`."""

from __future__ import annotations

import torch

from mhc.backends.reference.eager import widen, write
from mhc.ops.mhc_head import MhcHeadInputs, MhcHeadOutputs


def equations(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_eps: float,
    pre_eps: float,
) -> MhcHeadOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); the output is rounded to x's dtype at the end."""
    streams = x.to(phi.dtype)
    v = streams.flatten(1)
    r = torch.rsqrt(v.square().mean(dim=1, keepdim=True) + norm_eps)
    weighted = v if gamma is None else v * gamma.flatten()
    weights = torch.sigmoid(alpha * (weighted @ phi.T) * r + bias) + pre_eps
    return MhcHeadOutputs((weights.unsqueeze(-1) * streams).sum(dim=1).to(x.dtype))


def golden(inputs: MhcHeadInputs) -> MhcHeadOutputs:
    """The same equations in float64 throughout."""
    return equations(*widen(inputs))


def run(inputs: MhcHeadInputs, out: MhcHeadOutputs, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(equations(*inputs), out)
