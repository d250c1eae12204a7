"""``mhc_coefficients``: the coefficients that ``mhc_pre`` makes of the streams, without reading a layer's input::

    r      = rsqrt(mean(v²) + norm_eps)              v = flatten(x)
    m      = ((v · gamma) @ phiᵀ) · r                split into m_pre (n), m_post (n), m_res (c)
    h_pre  = σ(alpha[0] · m_pre  + bias_pre) + pre_eps
    h_post = post_scale · σ(alpha[1] · m_post + bias_post)
    logits = alpha[2] · m_res + bias_res

The rows of ``phi`` say how many logits there are: c is what is left after 2n, and may be 0. A mixer (:mod:`mhc.mixers`)
makes the residual matrix of them; for Sinkhorn c is n².

``m`` and ``r`` are outputs too, for the backward.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops.needs import empty_needed
from mhc.ops.read import ReadSpec, spec_of


@dataclass(frozen=True)
class MhcCoefficientsSpec(ReadSpec):
    """The specialisation of a kernel of ``mhc_coefficients``; ``logits`` is c."""

    post_scale: float = 2.0
    logits: int = 16

    @property
    def mixes(self) -> int:
        """Return the rows of ``phi``: n for h_pre, n for h_post, c for the logits."""
        return 2 * self.streams + self.logits


_spec = functools.cache(MhcCoefficientsSpec)  # made at every call


class MhcCoefficientsInputs(NamedTuple):
    """``x`` [tokens, n, hidden] in bf16, fp16 or fp32; ``phi`` [2n+c, n·hidden], ``alpha`` [3], ``bias`` [2n+c] and
    ``gamma`` [n, hidden] or None, all fp32. All contiguous, on one device, at least one token.
    """

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"

    @property
    def spec(self) -> MhcCoefficientsSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale, logits_of(self))


class MhcCoefficientsOutputs(NamedTuple):
    """``h_pre`` [tokens, n], ``h_post`` [tokens, n], ``logits`` [tokens, c], ``m`` [tokens, 2n+c] and ``r`` [tokens],
    all fp32.
    """

    h_pre: torch.Tensor
    h_post: torch.Tensor
    logits: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor


class MhcCoefficientsBackwardInputs(NamedTuple):
    """The forward's inputs, its outputs ``m`` and ``r``, and gradients of the shapes of h_pre, h_post and logits.

    ``needs`` says for each of x, phi, alpha, bias and gamma whether its gradient is asked for.
    """

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    m: torch.Tensor
    r: torch.Tensor
    grad_h_pre: torch.Tensor
    grad_h_post: torch.Tensor
    grad_logits: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"
    needs: tuple[bool, ...] = (True,) * 5

    @property
    def spec(self) -> MhcCoefficientsSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale, logits_of(self))


class MhcCoefficientsGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's tensors.

    One is None where it is not asked for, and ``gamma`` where the forward has none.
    """

    x: torch.Tensor | None
    phi: torch.Tensor | None
    alpha: torch.Tensor | None
    bias: torch.Tensor | None
    gamma: torch.Tensor | None


def logits_of(inputs: MhcCoefficientsInputs | MhcCoefficientsBackwardInputs) -> int:
    """Return how many logits phi gives."""
    return inputs.phi.shape[0] - 2 * inputs.x.shape[-2]


def empty_outputs(inputs: MhcCoefficientsInputs) -> MhcCoefficientsOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    *tokens, streams, _ = inputs.x.shape
    return MhcCoefficientsOutputs(
        h_pre=inputs.phi.new_empty(*tokens, streams),
        h_post=inputs.phi.new_empty(*tokens, streams),
        logits=inputs.phi.new_empty(*tokens, logits_of(inputs)),
        m=inputs.phi.new_empty(*tokens, inputs.phi.shape[0]),
        r=inputs.phi.new_empty(tokens),
    )


def empty_grads(inputs: MhcCoefficientsBackwardInputs) -> MhcCoefficientsGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device: those that are asked for."""
    return MhcCoefficientsGrads(*empty_needed(inputs[:5], inputs.needs))
