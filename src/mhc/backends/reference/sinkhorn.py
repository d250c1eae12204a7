"""``sinkhorn`` and its gradient in eager PyTorch, line by line the equations of :mod:`mhc.ops.sinkhorn`."""

from __future__ import annotations

import torch

from mhc.ops.sinkhorn import SinkhornGrads, SinkhornOutputs


def forward(logits: torch.Tensor, iterations: int, eps: float) -> SinkhornOutputs:
    """Compute in the dtype of ``logits`` [tokens, n, n]."""
    matrix = torch.exp(logits - logits.amax(dim=2, keepdim=True).detach())
    for _ in range(iterations):
        matrix = matrix / (matrix.sum(dim=2, keepdim=True) + eps)
        matrix = matrix / (matrix.sum(dim=1, keepdim=True) + eps)
    return SinkhornOutputs(matrix)


def backward(logits: torch.Tensor, grad_matrix: torch.Tensor, iterations: int, eps: float) -> SinkhornGrads:
    """Go forward and keep each quotient with its divisor, then go back.

    The gradient of B = A / (ΣA + eps) is dA = (dB - Σ(dB · B)) / (ΣA + eps).
    """
    start = torch.exp(logits - logits.amax(dim=2, keepdim=True))
    matrix, quotients = start, []
    for _ in range(iterations):
        for dim in (2, 1):
            divisor = matrix.sum(dim=dim, keepdim=True) + eps
            matrix = matrix / divisor
            quotients.append((matrix, divisor, dim))
    grad = grad_matrix
    for quotient, divisor, dim in reversed(quotients):
        grad = (grad - (grad * quotient).sum(dim=dim, keepdim=True)) / divisor
    return SinkhornGrads(grad * start)
