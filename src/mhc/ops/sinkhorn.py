"""``sinkhorn``: project the residual mapping onto doubly stochastic matrices (arXiv 2512.24880, section 4.2).

With C, which divides by the sum of each column, and R, which divides by the sum of each row, an iteration is R(C(M)):
columns first and rows last (equation 9), so that the weights that enter a stream, a row, sum to 1. In the form
``paper``::

    M = R(C(exp(logits)))                                          computed from logarithms, so that nothing overflows
    repeat `iterations` - 1 times:   M = M / (sum of its column + eps);   M = M / (sum of its row + eps)

``eps`` may be 0 there, as in the paper: after the first iteration no sum is below 1/n². The form ``deepseek`` is in
DeepSeek's released code, which holds the transpose of our matrix. Its first iteration is another::

    M = exp(logits) / (sum of its column) + eps;   M = M / (sum of its row + eps)

and the other iterations are the same. Liger computes the form ``deepseek`` of the transposed logits, transposed back:
its columns sum to 1, and not its rows. The gradient goes through the iterations, not around them.

Kernels compute the first iteration of the form ``paper`` without a logarithm: with c the largest logit of a column and
r the largest ``logits - c`` of a row, the entry is ``exp(logits - c - r)`` over the sum of ``exp(logits - c)`` in its
column, and that over its row's sum. No sum of a row is below 1/n, so logits of any size give rows that sum to 1. Two
examples with one iteration and exponentials that underflow:

=========================== ============================== ==========================================
logits                      ``paper``                      ``deepseek``
=========================== ============================== ==========================================
``[[800, 0], [800, 0]]``    1/2 everywhere                 1/2 everywhere, up to eps
``[[800, 800], [0, 0]]``    1/2 everywhere                 1/2 in the first row, 1/3 in the second
=========================== ============================== ==========================================

In ``deepseek`` the quotients of a row that underflows are eps alone, and so its first sum is n/(n + 1). The second
iteration makes it 1.

A logit of -inf is an entry of 0 (in ``deepseek``, one that eps alone makes), and its gradient is 0. Where a row or a
column has only -inf, there is no doubly stochastic matrix. A column of -inf makes every entry NaN. So does a row of
-inf in ``paper``; after one iteration only that row is NaN. In ``deepseek`` eps makes it a row of equal entries.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

# The forms of the first iteration, each with the eps that it has where it comes from.
FORMS = {"paper": 0.0, "deepseek": 1e-6}


@dataclass(frozen=True)
class SinkhornSpec:
    """``streams`` is n; ``iterations`` (at least one), ``eps`` and ``form`` are in the equation."""

    streams: int
    iterations: int = 20
    eps: float = 0.0
    form: str = "paper"


_spec = functools.cache(SinkhornSpec)  # made at every call


class SinkhornInputs(NamedTuple):
    """``logits`` [tokens, n, n] fp32, contiguous, at least one token."""

    logits: torch.Tensor
    iterations: int = 20
    eps: float = 0.0
    form: str = "paper"

    @property
    def spec(self) -> SinkhornSpec:
        """Return the specialisation that these inputs ask for."""
        return _spec(self.logits.shape[-1], self.iterations, self.eps, self.form)


class SinkhornOutputs(NamedTuple):
    """``matrix`` [tokens, n, n] fp32, rows first: ``matrix[t, i, j]`` belongs to ``logits[t, i, j]``."""

    matrix: torch.Tensor


class SinkhornBackwardInputs(NamedTuple):
    """The forward's ``logits``, and ``grad_matrix`` of its output's shape and dtype."""

    logits: torch.Tensor
    grad_matrix: torch.Tensor
    iterations: int = 20
    eps: float = 0.0
    form: str = "paper"

    @property
    def spec(self) -> SinkhornSpec:
        """Return the specialisation that these inputs ask for."""
        return _spec(self.logits.shape[-1], self.iterations, self.eps, self.form)


class SinkhornGrads(NamedTuple):
    """``logits`` [tokens, n, n] fp32."""

    logits: torch.Tensor


def empty_outputs(inputs: SinkhornInputs) -> SinkhornOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    return SinkhornOutputs(inputs.logits.new_empty(inputs.logits.shape))


def empty_grads(inputs: SinkhornBackwardInputs) -> SinkhornGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device."""
    return SinkhornGrads(torch.empty_like(inputs.logits))
