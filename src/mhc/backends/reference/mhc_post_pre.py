"""``mhc_post_pre`` and its gradient in eager PyTorch: the equations of the two operators that it is made of."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mhc.backends.reference import mhc_post, mhc_pre
from mhc.ops.mhc_post_pre import MhcPostPreGrads, MhcPostPreOutputs


def forward(
    x: torch.Tensor,
    y: torch.Tensor,
    h_post: torch.Tensor,
    h_res: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_eps: float,
    pre_eps: float,
    post_scale: float,
    precision: str,
) -> MhcPostPreOutputs:
    """Compute in ``phi``'s dtype (fp32, or float64 for the golden); ``out`` and ``h_in`` are rounded to x's dtype."""
    [out] = mhc_post.forward(x, y, h_post, h_res)
    h_in, next_h_post, next_h_res, m, r = mhc_pre.forward(
        out, phi, alpha, bias, gamma, norm_eps, pre_eps, post_scale, precision
    )
    return MhcPostPreOutputs(h_in, next_h_post, next_h_res, out, m, r)


def backward(
    x: torch.Tensor,
    y: torch.Tensor,
    h_post: torch.Tensor,
    h_res: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    out: torch.Tensor,
    m: torch.Tensor,
    r: torch.Tensor,
    grad_h_in: torch.Tensor,
    grad_next_h_post: torch.Tensor,
    grad_next_h_res: torch.Tensor,
    grad_out: torch.Tensor,
    norm_eps: float,
    pre_eps: float,
    post_scale: float,
    precision: str,
    needs: Sequence[bool],
) -> MhcPostPreGrads:
    """Compute in ``phi``'s dtype; the gradients of ``x`` and ``y`` are rounded to their dtype at the end.

    The gradient of ``out`` is rounded to its dtype too, like the gradient of any tensor between two operators.
    """
    needs_post, needs_pre = tuple(needs[:4]), tuple(needs[4:])
    through = mhc_pre.backward(
        out.to(phi.dtype),  # as wide numbers, so that the gradient is rounded after the sum
        phi,
        alpha,
        bias,
        gamma,
        m,
        r,
        grad_h_in,
        grad_next_h_post,
        grad_next_h_res,
        norm_eps,
        pre_eps,
        post_scale,
        precision,
        (any(needs_post), *needs_pre),
    )
    if through.x is None:
        return MhcPostPreGrads(None, None, None, None, *through[1:])
    written = mhc_post.backward(x, y, h_post, h_res, (through.x + grad_out.to(phi.dtype)).to(out.dtype), needs_post)
    return MhcPostPreGrads(*written, *through[1:])
