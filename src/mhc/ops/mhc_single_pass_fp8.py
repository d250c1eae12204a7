"""``mhc_single_pass_fp8``: ``mhc_single_pass`` for serving, with the layer's input in fp8 and a scale for each group::

    v     = h_in of mhc_single_pass, rounded to x's dtype
    scale = max(max |v|, 1e-4) / 448                        over each group of 128 columns of a token
    h_in  = fp8(v / scale)                                  e4m3, rounded to nearest even

Products of fp8 in blocks take that: those of DeepGEMM, cuBLASLt, and the linear layers of SGLang and vLLM. 448 is the
largest number of e4m3, so nothing overflows. With ``power_of_two_scales`` a scale is rounded up to a power of two
(UE8M0), as DeepSeek-V3.1 and later models have it. NaN in a group makes all of the group NaN.

Everything else is as in ``mhc_single_pass`` (:mod:`mhc.ops.mhc_single_pass`). There is no backward.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mhc.ops import mhc_single_pass
from mhc.ops.mhc_single_pass import MhcSinglePassInputs, MhcSinglePassSpec
from mhc.ops.read import spec_of

FP8 = torch.float8_e4m3fn
GROUP = 128  # columns with one scale
LEAST, MOST = 1e-4, 448.0  # of the largest number of a group, and of fp8


@dataclass(frozen=True)
class MhcSinglePassFp8Spec(MhcSinglePassSpec):
    """The specialisation of a kernel of ``mhc_single_pass_fp8``; ``hidden`` is a multiple of 128."""

    power_of_two_scales: bool = False


_spec = functools.cache(MhcSinglePassFp8Spec)  # made at every call


class MhcSinglePassFp8Inputs(NamedTuple):
    """The inputs of ``mhc_single_pass``, and whether the scales are powers of two."""

    x: torch.Tensor
    y: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor
    pre: torch.Tensor
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
    def spec(self) -> MhcSinglePassFp8Spec:
        """Return the specialisation that these inputs ask for."""
        logits = self.phi.shape[0] - 2 * self.x.shape[-2]
        return spec_of(_spec, self, self.post_scale, logits, self.power_of_two_scales)


class MhcSinglePassFp8Outputs(NamedTuple):
    """``h_in`` [tokens, hidden] in fp8 (e4m3), ``scale`` [tokens, hidden/128] fp32, and the others of
    ``mhc_single_pass``.
    """

    h_in: torch.Tensor
    scale: torch.Tensor
    next_h_pre: torch.Tensor
    next_h_post: torch.Tensor
    next_logits: torch.Tensor
    out: torch.Tensor
    read: torch.Tensor
    s: torch.Tensor
    m: torch.Tensor
    r: torch.Tensor


def empty_outputs(inputs: MhcSinglePassFp8Inputs) -> MhcSinglePassFp8Outputs:
    """Return uninitialised outputs, contiguous and on the inputs' device; tokens may have any leading dimensions."""
    wide, *others = mhc_single_pass.empty_outputs(MhcSinglePassInputs(*inputs[:-1]))
    scale = inputs.phi.new_empty(*wide.shape[:-1], wide.shape[-1] // GROUP)
    return MhcSinglePassFp8Outputs(torch.empty_like(wide, dtype=FP8), scale, *others)
