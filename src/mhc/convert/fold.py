"""The RMSNorm weight, folded into the projection."""

from __future__ import annotations

import torch


def fold_gamma(phi: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    """Return phi with the RMSNorm weight folded into it; use it with ``gamma=None``.

    ``(v · gamma) @ phiᵀ`` is ``v @ (phi · gamma)ᵀ``, and r is computed before gamma. So the outputs and the gradient of
    x stay as they are, up to rounding. The training changes: one tensor is left of two, its gradient is the gradient of
    the product, and the optimizer and the weight decay act on the product. It cannot be undone, because the product
    does not say what its factors were.

    Args:
        phi: ``[mixes, n·hidden]``, of ``mhc_pre`` or of ``mhc_head``.
        gamma: ``[n, hidden]`` or ``[n·hidden]``.

    Returns:
        A new tensor of phi's shape and dtype; the product is rounded once, to that dtype.

    Raises:
        ValueError: gamma does not have one element for each column of phi.
    """
    if phi.dim() != 2 or gamma.numel() != phi.shape[1]:
        raise ValueError(
            f"fold_gamma: gamma has shape {tuple(gamma.shape)}; phi of shape {tuple(phi.shape)} needs one element for "
            "each of its columns"
        )
    return (phi * gamma.flatten()).to(phi.dtype)
