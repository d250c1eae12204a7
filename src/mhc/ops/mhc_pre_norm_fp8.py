"""``mhc_pre_norm_fp8``: ``mhc_pre_norm`` for serving, with the layer's input in fp8 and a scale for each group.

``h_in`` of ``mhc_pre_norm`` is quantised as ``mhc_single_pass_fp8`` does it (:mod:`mhc.ops.mhc_single_pass_fp8`).
Everything else is as in ``mhc_pre_norm`` (:mod:`mhc.ops.mhc_pre_norm`). There is no backward.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops import mhc_pre_norm
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs
from mhc.ops.mhc_pre_norm import MhcPreNormInputs, MhcPreNormSpec
from mhc.ops.mhc_single_pass_fp8 import FP8, GROUP
from mhc.ops.read import spec_of


@dataclass(frozen=True)
class MhcPreNormFp8Spec(MhcPreNormSpec):
    """The specialisation of a kernel of ``mhc_pre_norm_fp8``; ``hidden`` is a multiple of 128."""

    power_of_two_scales: bool = False


_spec = functools.cache(MhcPreNormFp8Spec)  # made at every call


class MhcPreNormFp8Inputs(NamedTuple):
    """The inputs of ``mhc_pre_norm``, and whether the scales are powers of two."""

    x: torch.Tensor
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None
    norm_weight: torch.Tensor
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    post_scale: float = 2.0
    precision: str = "fp32"
    power_of_two_scales: bool = False

    @property
    def spec(self) -> MhcPreNormFp8Spec:
        """Return the specialisation that these inputs ask for."""
        return spec_of(_spec, self, self.post_scale, self.power_of_two_scales)

    @property
    def pre(self) -> MhcPreInputs:
        """Return the inputs of ``mhc_pre``."""
        return MhcPreInputs(*self[:5], *self[6:10])


class MhcPreNormFp8Outputs(NamedTuple):
    """``h_in`` [tokens, hidden] in fp8 (e4m3), ``scale`` [tokens, hidden/128] fp32, and the others of
    ``mhc_pre_norm``.
    """

    h_in: torch.Tensor
    scale: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    read: torch.Tensor
    s: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor

    @property
    def pre(self) -> MhcPreOutputs:
        """Return the outputs of ``mhc_pre``."""
        return MhcPreOutputs(self.read, self.h_post, self.h_res, self.m, self.r)


def empty_outputs(inputs: MhcPreNormFp8Inputs) -> MhcPreNormFp8Outputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    wide, *others = mhc_pre_norm.empty_outputs(MhcPreNormInputs(*inputs[:-1]))
    scale = inputs.phi.new_empty(*wide.shape[:-1], wide.shape[-1] // GROUP)
    return MhcPreNormFp8Outputs(torch.empty_like(wide, dtype=FP8), scale, *others)
