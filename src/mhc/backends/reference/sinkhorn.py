"""``sinkhorn`` in eager PyTorch, line by line the equation of :mod:`mhc.ops.sinkhorn`."""

from __future__ import annotations

import torch

from mhc.backends.reference.eager import widen, write
from mhc.ops.sinkhorn import SinkhornInputs, SinkhornOutputs


def equations(logits: torch.Tensor, iterations: int, eps: float) -> SinkhornOutputs:
    """Compute in the dtype of ``logits`` [tokens, n, n]."""
    matrix = torch.exp(logits - logits.amax(dim=2, keepdim=True).detach())
    for _ in range(iterations):
        matrix = matrix / (matrix.sum(dim=2, keepdim=True) + eps)
        matrix = matrix / (matrix.sum(dim=1, keepdim=True) + eps)
    return SinkhornOutputs(matrix)


def golden(inputs: SinkhornInputs) -> SinkhornOutputs:
    """The same equations in float64."""
    return equations(*widen(inputs))


def run(inputs: SinkhornInputs, out: SinkhornOutputs, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(equations(*inputs), out)
