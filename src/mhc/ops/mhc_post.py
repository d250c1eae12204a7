"""``mhc_post``: write the layer's output back and mix the residual streams (arXiv 2512.24880, section 4)::

    out_i = Σⱼ h_res[i, j] · x_j + h_post_i · y

with ``h_res`` doubly stochastic, as ``sinkhorn`` makes it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops.needs import empty_needed


@dataclass(frozen=True)
class MhcPostSpec:
    """``streams`` is n, ``hidden`` the width of one stream, ``dtype`` the dtype of ``x``, ``y`` and the output."""

    streams: int
    hidden: int
    dtype: torch.dtype


_spec = functools.cache(MhcPostSpec)  # made at every call


class MhcPostInputs(NamedTuple):
    """``x`` [tokens, n, hidden] and ``y`` [tokens, hidden] in one dtype of bf16, fp16, fp32; ``h_post`` [tokens, n] and
    ``h_res`` [tokens, n, n] fp32. All contiguous, on one device, at least one token.
    """

    x: torch.Tensor
    y: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor

    @property
    def spec(self) -> MhcPostSpec:
        """Return the specialisation that these inputs ask for."""
        streams, hidden = self.x.shape[-2:]
        return _spec(streams, hidden, self.x.dtype)


class MhcPostOutputs(NamedTuple):
    """``out`` [tokens, n, hidden] in x's dtype."""

    out: torch.Tensor


class MhcPostBackwardInputs(NamedTuple):
    """The forward's inputs, and ``grad_out`` of its output's shape and dtype.

    ``needs`` says for each of x, y, h_post and h_res whether its gradient is asked for.
    """

    x: torch.Tensor
    y: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    grad_out: torch.Tensor
    needs: tuple[bool, ...] = (True,) * 4

    @property
    def spec(self) -> MhcPostSpec:
        """Return the specialisation that these inputs ask for."""
        streams, hidden = self.x.shape[-2:]
        return _spec(streams, hidden, self.x.dtype)


class MhcPostGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's inputs; one is None where it is not asked for."""

    x: torch.Tensor | None
    y: torch.Tensor | None
    h_post: torch.Tensor | None
    h_res: torch.Tensor | None


def empty_outputs(inputs: MhcPostInputs) -> MhcPostOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    return MhcPostOutputs(inputs.x.new_empty(inputs.x.shape))


def empty_grads(inputs: MhcPostBackwardInputs) -> MhcPostGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device: those that are asked for."""
    return MhcPostGrads(*empty_needed(inputs[:4], inputs.needs))
