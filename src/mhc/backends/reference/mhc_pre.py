"""``mhc_pre`` in eager PyTorch, line by line the equation of :mod:`mhc.ops.mhc_pre`."""

from __future__ import annotations

import torch

from mhc.backends.reference.eager import widen, write
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs


def equations(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_eps: float,
    pre_eps: float,
) -> MhcPreOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); ``h_in`` is rounded to x's dtype at the end.

    ``x`` is [tokens, n, hidden]; the other shapes are those of :class:`mhc.ops.mhc_pre.MhcPreInputs`.
    """
    tokens, n, _ = x.shape
    streams = x.to(phi.dtype)
    v = streams.flatten(1)
    r = torch.rsqrt(v.square().mean(dim=1, keepdim=True) + norm_eps)
    weighted = v if gamma is None else v * gamma.flatten()
    m = (weighted @ phi.T) * r
    m_pre, m_post, m_res = m.split([n, n, n * n], dim=1)
    b_pre, b_post, b_res = bias.split([n, n, n * n])
    h_pre = torch.sigmoid(alpha[0] * m_pre + b_pre) + pre_eps
    h_post = 2 * torch.sigmoid(alpha[1] * m_post + b_post)
    h_res = alpha[2] * m_res + b_res
    h_in = (h_pre.unsqueeze(-1) * streams).sum(dim=1)
    return MhcPreOutputs(h_in.to(x.dtype), h_post, h_res.reshape(tokens, n, n))


def golden(inputs: MhcPreInputs) -> MhcPreOutputs:
    """The same equations in float64 throughout, ``h_in`` too: what every result is compared with."""
    return equations(*widen(inputs))


def run(inputs: MhcPreInputs, out: MhcPreOutputs, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(equations(*inputs), out)
