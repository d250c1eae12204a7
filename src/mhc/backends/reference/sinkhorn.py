"""``sinkhorn`` and its gradient in eager PyTorch, line by line the equations of :mod:`mhc.ops.sinkhorn`."""

from __future__ import annotations

import torch

from mhc.ops.sinkhorn import SinkhornGrads, SinkhornOutputs

ROWS, COLUMNS = 2, 1  # the dimension that a sum over a row, or over a column, goes along


def forward(logits: torch.Tensor, iterations: int, eps: float, form: str) -> SinkhornOutputs:
    """Compute in the dtype of ``logits`` [tokens, n, n]."""
    if form == "deepseek":
        matrix = torch.softmax(logits, dim=COLUMNS) + eps
        matrix = matrix / (matrix.sum(dim=ROWS, keepdim=True) + eps)
    else:
        matrix = torch.softmax(torch.log_softmax(logits, dim=COLUMNS), dim=ROWS)
    for _ in range(iterations - 1):
        matrix = matrix / (matrix.sum(dim=COLUMNS, keepdim=True) + eps)
        matrix = matrix / (matrix.sum(dim=ROWS, keepdim=True) + eps)
    return SinkhornOutputs(matrix)


def backward(logits: torch.Tensor, grad_matrix: torch.Tensor, iterations: int, eps: float, form: str) -> SinkhornGrads:
    """Go forward and keep each quotient with its divisor, then go back.

    The gradient of B = A / (ΣA + eps) is dA = (dB - Σ(dB · B)) / (ΣA + eps), and the gradient of B = softmax(A) is
    dA = B · (dB - Σ(dB · B)).
    """
    columns = torch.softmax(logits, dim=COLUMNS)
    if form == "deepseek":
        first_divisor = (columns + eps).sum(dim=ROWS, keepdim=True) + eps
        first = (columns + eps) / first_divisor
    else:
        first = torch.softmax(torch.log_softmax(logits, dim=COLUMNS), dim=ROWS)
    matrix, quotients = first, []
    for _ in range(iterations - 1):
        for dim in (COLUMNS, ROWS):
            divisor = matrix.sum(dim=dim, keepdim=True) + eps
            matrix = matrix / divisor
            quotients.append((matrix, divisor, dim))
    grad = grad_matrix
    for quotient, divisor, dim in reversed(quotients):
        grad = (grad - (grad * quotient).sum(dim=dim, keepdim=True)) / divisor
    grad = grad - (grad * first).sum(dim=ROWS, keepdim=True)
    if form == "deepseek":
        grad = grad / first_divisor
        return SinkhornGrads(columns * (grad - (grad * columns).sum(dim=COLUMNS, keepdim=True)))
    grad = first * grad
    return SinkhornGrads(grad - columns * grad.sum(dim=COLUMNS, keepdim=True))
