"""``mhc_read``: read the layer's input from the streams with weights that are given::

    h_in = Σᵢ preᵢ · xᵢ

``mhc_pre`` reads with the weights that it makes of the same streams. In the single-pass form of DeepSeek-V4.1 a layer
reads with the weights that the layer before it made, and the last weights collapse the streams after the last layer.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops.needs import empty_needed


@dataclass(frozen=True)
class MhcReadSpec:
    """``streams`` is n, ``hidden`` the width of one stream, ``dtype`` the dtype of ``x`` and of what is read."""

    streams: int
    hidden: int
    dtype: torch.dtype


_spec = functools.cache(MhcReadSpec)  # made at every call


class MhcReadInputs(NamedTuple):
    """``x`` [tokens, n, hidden] in bf16, fp16 or fp32, and ``pre`` [tokens, n] fp32.

    Both are contiguous, on one device, with at least one token.
    """

    x: torch.Tensor
    pre: torch.Tensor

    @property
    def spec(self) -> MhcReadSpec:
        """Return the specialisation that these inputs ask for."""
        return _spec(*self.x.shape[-2:], self.x.dtype)


class MhcReadOutputs(NamedTuple):
    """``h_in`` [tokens, hidden] in x's dtype."""

    h_in: torch.Tensor


class MhcReadBackwardInputs(NamedTuple):
    """The forward's inputs, and ``grad_h_in`` of its output's shape and dtype.

    ``needs`` says for each of x and pre whether its gradient is asked for.
    """

    x: torch.Tensor
    pre: torch.Tensor
    grad_h_in: torch.Tensor
    needs: tuple[bool, ...] = (True,) * 2

    @property
    def spec(self) -> MhcReadSpec:
        """Return the specialisation that these inputs ask for."""
        return _spec(*self.x.shape[-2:], self.x.dtype)


class MhcReadGrads(NamedTuple):
    """Gradients in the shapes and dtypes of the forward's inputs; one is None where it is not asked for."""

    x: torch.Tensor | None
    pre: torch.Tensor | None


def empty_outputs(inputs: MhcReadInputs) -> MhcReadOutputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    *tokens, _, hidden = inputs.x.shape
    return MhcReadOutputs(inputs.x.new_empty(*tokens, hidden))


def empty_grads(inputs: MhcReadBackwardInputs) -> MhcReadGrads:
    """Return uninitialised gradients, contiguous and on the inputs' device: those that are asked for."""
    return MhcReadGrads(*empty_needed(inputs[:2], inputs.needs))
