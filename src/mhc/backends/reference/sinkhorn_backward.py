"""Gradient of ``sinkhorn`` in eager PyTorch, back through the iterations; the golden is autograd in float64 instead."""

from __future__ import annotations

import torch

from mhc.backends.reference import sinkhorn
from mhc.backends.reference.eager import gradients, widen, write
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads


def equations(logits: torch.Tensor, grad_matrix: torch.Tensor, iterations: int, eps: float) -> SinkhornGrads:
    """Go forward and keep each quotient with its divisor, then go back: of B = A / (ΣA + eps) the gradient is

    dA = (dB - Σ(dB · B)) / (ΣA + eps).
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


def golden(inputs: SinkhornBackwardInputs) -> SinkhornGrads:
    """Autograd through the forward's equations in float64."""
    logits, grad_matrix, iterations, eps = widen(inputs)
    return SinkhornGrads(*gradients(sinkhorn.equations, (logits, iterations, eps), (grad_matrix,))[:1])


def run(inputs: SinkhornBackwardInputs, out: SinkhornGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(equations(*inputs), out)
