"""``mhc_post_pre``: ``mhc_post`` of one layer and ``mhc_pre`` of the next, as one operator::

    out_i = Σⱼ h_res[i, j] · x_j + h_post_i · y                                       (mhc_post)
    h_in, next_h_post, next_h_res, m, r = mhc_pre(out, phi, alpha, bias, gamma)       (mhc_pre)

``h_post`` and ``h_res`` (after ``sinkhorn``) belong to the layer that gave ``y``. phi, alpha, bias and gamma belong
to the next layer, and so do ``next_h_post`` and ``next_h_res`` (before ``sinkhorn``). The streams ``out`` are rounded
to their dtype before they are read, so the results equal the results of the two operators in turn.

``out``, ``m`` and ``r`` are kept for the backward. ``out`` also has a gradient, ``grad_out``, as the next layer writes
back into it. The backward is the backward of ``mhc_post`` for the sum of ``grad_out`` and the gradient of x in
``mhc_pre``. This sum is rounded to x's dtype, as the gradient of a tensor between two operators is.

The operator saves the pass over the streams in which autograd adds two gradients of ``out``, and a node of autograd.
Where its kernels are the two operators' kernels in turn, it saves no more.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops import mhc_post, mhc_pre
from mhc.ops.mhc_post import MhcPostInputs
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreInputs, MhcPreOutputs, MhcPreSpec
from mhc.ops.needs import empty_needed
from mhc.ops.read import spec_of


@dataclass(frozen=True)
class MhcPostPreSpec(MhcPreSpec):
    """The specialisation of a kernel of ``mhc_post_pre``: the same as for its ``mhc_pre``."""


_spec = functools.cache(MhcPostPreSpec)  # made at every call


class MhcPostPreInputs(NamedTuple):
    """``x`` [tokens, n, hidden] and ``y`` [tokens, hidden] in one dtype of bf16, fp16, fp32; ``h_post`` [tokens, n],
    ``h_res`` [tokens, n, n], ``phi`` [n²+2n, n·hidden], ``alpha`` [3], ``bias`` [n²+2n] and ``gamma`` [n, hidden] or
    None, all fp32. All contiguous, on one device, at least one token.
    """

    x: torch.Tensor
    y: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"

    @property
    def spec(self) -> MhcPostPreSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale)

    @property
    def post(self) -> MhcPostInputs:
        """Return the inputs of ``mhc_post``."""
        return MhcPostInputs(*self[:4])

    def pre(self, out: torch.Tensor) -> MhcPreInputs:
        """Return the inputs of ``mhc_pre``, which reads the streams ``out``."""
        return MhcPreInputs(out, *self[4:])


class MhcPostPreOutputs(NamedTuple):
    """``h_in`` [tokens, hidden] in x's dtype, ``next_h_post`` [tokens, n] and ``next_h_res`` [tokens, n, n] fp32,
    ``out`` [tokens, n, hidden] in x's dtype, ``m`` [tokens, n²+2n] and ``r`` [tokens] fp32.
    """

    h_in: torch.Tensor
    next_h_post: torch.Tensor
    next_h_res: torch.Tensor
    out: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor

    @property
    def pre(self) -> MhcPreOutputs:
        """Return the outputs of ``mhc_pre``."""
        return MhcPreOutputs(self.h_in, self.next_h_post, self.next_h_res, self.m, self.r)


class MhcPostPreBackwardInputs(NamedTuple):
    """The forward's inputs, its outputs ``out``, ``m`` and ``r``, and gradients of the shapes and dtypes of h_in,
    next_h_post, next_h_res and out.

    ``needs`` says for each of x, y, h_post, h_res, phi, alpha, bias and gamma whether its gradient is asked for.
    """

    x: torch.Tensor
    y: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    out: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor
    grad_h_in: torch.Tensor
    grad_next_h_post: torch.Tensor
    grad_next_h_res: torch.Tensor
    grad_out: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"
    needs: tuple[bool, ...] = (True,) * 8

    @property
    def spec(self) -> MhcPostPreSpec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale)

    @property
    def needs_out(self) -> bool:
        """Return whether a gradient is asked for that needs the one of the streams."""
        return any(self.needs[:4])

    @property
    def pre(self) -> MhcPreBackwardInputs:
        """Return the inputs of the backward of ``mhc_pre``; the streams have a gradient where one is needed."""
        incoming = self.grad_h_in, self.grad_next_h_post, self.grad_next_h_res
        needs = (self.needs_out, *self.needs[4:])
        return MhcPreBackwardInputs(self.out, *self[4:8], self.m, self.r, *incoming, *self[15:19], needs)


class MhcPostPreGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's tensors.

    One is None where it is not asked for, and ``gamma`` where the forward has none.
    """

    x: torch.Tensor | None
    y: torch.Tensor | None
    h_post: torch.Tensor | None
    h_res: torch.Tensor | None
    phi: torch.Tensor | None
    alpha: torch.Tensor | None
    bias: torch.Tensor | None
    gamma: torch.Tensor | None


def empty_outputs(inputs: MhcPostPreInputs) -> MhcPostPreOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    [out] = mhc_post.empty_outputs(inputs.post)
    h_in, h_post, h_res, m, r = mhc_pre.empty_outputs(inputs.pre(out))
    return MhcPostPreOutputs(h_in, h_post, h_res, out, m, r)


def empty_grads(inputs: MhcPostPreBackwardInputs) -> MhcPostPreGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device: those that are asked for."""
    return MhcPostPreGrads(*empty_needed(inputs[:8], inputs.needs))
