"""``sinkhorn``: project the residual mapping onto doubly stochastic matrices (arXiv 2512.24880, section 4.2).

For each token's matrix::

    M = exp(logits - max of its row)
    repeat `iterations` times:   M = M / (sum of its row + eps);   M = M / (sum of its column + eps)

so that columns sum to 1 up to ``eps``, and rows as far as the iterations converged. The gradient goes through the
iterations, not around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch


@dataclass(frozen=True)
class SinkhornSpec:
    """``streams`` is n; ``iterations`` (at least one) and ``eps`` are those of the equation."""

    streams: int
    iterations: int = 20
    eps: float = 1e-6


class SinkhornInputs(NamedTuple):
    """``logits`` [tokens, n, n] fp32, contiguous, at least one token."""

    logits: torch.Tensor
    iterations: int = 20
    eps: float = 1e-6

    @property
    def spec(self) -> SinkhornSpec:
        """Return the specialisation that these inputs ask for."""
        return SinkhornSpec(self.logits.shape[-1], self.iterations, self.eps)


class SinkhornOutputs(NamedTuple):
    """``matrix`` [tokens, n, n] fp32, rows first: ``matrix[t, i, j]`` belongs to ``logits[t, i, j]``."""

    matrix: torch.Tensor


class SinkhornBackwardInputs(NamedTuple):
    """The forward's ``logits``, and ``grad_matrix`` of its output's shape and dtype."""

    logits: torch.Tensor
    grad_matrix: torch.Tensor
    iterations: int = 20
    eps: float = 1e-6

    @property
    def spec(self) -> SinkhornSpec:
        """Return the specialisation that these inputs ask for."""
        return SinkhornSpec(self.logits.shape[-1], self.iterations, self.eps)


class SinkhornGrads(NamedTuple):
    """``logits`` [tokens, n, n] fp32."""

    logits: torch.Tensor


def empty_outputs(inputs: SinkhornInputs) -> SinkhornOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device."""
    return SinkhornOutputs(torch.empty_like(inputs.logits))


def empty_grads(inputs: SinkhornBackwardInputs) -> SinkhornGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device."""
    return SinkhornGrads(torch.empty_like(inputs.logits))
