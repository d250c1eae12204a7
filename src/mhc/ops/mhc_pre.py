"""``mhc_pre``: read the layer's input, and the coefficients that write its output back, from the residual streams.

With ``v = flatten(x)`` of one token (arXiv 2512.24880, section 4; the streams are the rows of ``x``)::

    r      = rsqrt(mean(v²) + norm_eps)
    m      = ((v · gamma) @ phiᵀ) · r            split into m_pre (n), m_post (n), m_res (n²)
    h_pre  = σ(alpha[0] · m_pre  + bias_pre) + pre_eps
    h_post = post_scale · σ(alpha[1] · m_post + bias_post)          post_scale is 2 in the paper
    h_res  = alpha[2] · m_res + bias_res         (before Sinkhorn)
    h_in   = Σᵢ h_preᵢ · xᵢ

``m`` and ``r`` are outputs too, as the backward needs them: it then computes no projection again.

Other libraries call ``phi`` *fn*, ``alpha`` *scale*, ``bias`` *base* and ``gamma`` *norm_weight*.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops.needs import empty_needed
from mhc.ops.read import ReadSpec, spec_of


@dataclass(frozen=True)
class MhcPreSpec(ReadSpec):
    """The specialisation of a kernel of ``mhc_pre``; ``post_scale`` is the constant of h_post."""

    post_scale: float = 2.0

    @property
    def mixes(self) -> int:
        """Return the rows of ``phi``: n for h_pre, n for h_post, n² for h_res."""
        return self.streams * (self.streams + 2)


_spec = functools.cache(MhcPreSpec)  # made at every call


class MhcPreInputs(NamedTuple):
    """Inputs as a backend gets them: checked, contiguous, on one device, at least one token.

    ``x`` [tokens, n, hidden] in bf16, fp16 or fp32; ``phi`` [n²+2n, n·hidden], ``alpha`` [3], ``bias`` [n²+2n] and
    ``gamma`` [n, hidden] or None, all fp32.
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
    def spec(self) -> MhcPreSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale)


class MhcPreOutputs(NamedTuple):
    """``h_in`` [tokens, hidden] in x's dtype; ``h_post`` [tokens, n], ``h_res`` [tokens, n, n], ``m`` [tokens, n²+2n]
    and ``r`` [tokens], all fp32.

    A backend writes every element of the tensors that it is handed; it never replaces them.
    """

    h_in: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor


class MhcPreBackwardInputs(NamedTuple):
    """The forward's inputs, its outputs ``m`` and ``r``, and gradients of the shapes and dtypes of h_in, h_post, h_res.

    ``needs`` says for each of x, phi, alpha, bias and gamma whether its gradient is asked for. Where it is not, the
    field of :class:`MhcPreGrads` is None.
    """

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    m: torch.Tensor
    r: torch.Tensor
    grad_h_in: torch.Tensor
    grad_h_post: torch.Tensor
    grad_h_res: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"
    needs: tuple[bool, ...] = (True,) * 5

    @property
    def spec(self) -> MhcPreSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale)


class MhcPreAddingInputs(MhcPreBackwardInputs):
    """The same, and ``added``: a gradient of x that came from elsewhere, of x's shape and dtype.

    It is added to the gradient of x before the sum is rounded to x's dtype. Only a kernel whose attribute
    ``adds_to_first`` is true gets these inputs. Where ``overwritten``, the sum is written into the memory of ``added``:
    the kernel reads an element of it once, and writes that element after it.
    """

    added: torch.Tensor
    overwritten: bool

    @classmethod
    def of(cls, inputs: MhcPreBackwardInputs, added: torch.Tensor, *, overwritten: bool = False) -> MhcPreAddingInputs:
        """Return ``inputs`` with the gradient to add."""
        made = cls(*inputs)
        made.added, made.overwritten = added, overwritten
        return made


class MhcPreGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's tensors.

    One is None where it is not asked for, and ``gamma`` where the forward has none.
    """

    x: torch.Tensor | None
    phi: torch.Tensor | None
    alpha: torch.Tensor | None
    bias: torch.Tensor | None
    gamma: torch.Tensor | None


def empty_outputs(inputs: MhcPreInputs) -> MhcPreOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    *tokens, streams, hidden = inputs.x.shape
    return MhcPreOutputs(
        h_in=inputs.x.new_empty(*tokens, hidden),
        h_post=inputs.phi.new_empty(*tokens, streams),
        h_res=inputs.phi.new_empty(*tokens, streams, streams),
        m=inputs.phi.new_empty(*tokens, streams * (streams + 2)),
        r=inputs.phi.new_empty(tokens),
    )


def empty_grads(inputs: MhcPreBackwardInputs) -> MhcPreGrads:
    """Return gradients to be written, contiguous and on the inputs' device: those that are asked for."""
    if isinstance(inputs, MhcPreAddingInputs) and inputs.overwritten:
        return MhcPreGrads(inputs.added, *empty_needed(inputs[1:5], inputs.needs[1:]))
    return MhcPreGrads(*empty_needed(inputs[:5], inputs.needs))
