"""The kernels that Triton has: every operator, in both directions."""

from __future__ import annotations

from pathlib import Path

from triton import knobs

from mhc.backends import in_turn
from mhc.backends.triton import (
    expand,
    interpreter,
    mhc_coefficients,
    mhc_post,
    mhc_pre,
    mhc_pre_norm,
    mhc_read,
    mhc_single_pass,
    sinkhorn,
)
from mhc.backends.triton.kernel import device_target
from mhc.backends.triton.mhc_post_pre import JOINED
from mhc.backends.variants import with_variants
from mhc.ops.mhc_coefficients import MhcCoefficientsSpec
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_post_pre import MhcPostPreSpec
from mhc.ops.mhc_pre import MhcPreSpec
from mhc.ops.mhc_pre_norm import MhcPreNormSpec
from mhc.ops.mhc_pre_norm_fp8 import MhcPreNormFp8Spec
from mhc.ops.mhc_single_pass import MhcSinglePassSpec
from mhc.ops.mhc_single_pass_fp8 import MhcSinglePassFp8Spec

if knobs.runtime.interpret:
    interpreter.prepare_language_once()

KERNELS = with_variants(
    {
        ("mhc_pre", "forward"): mhc_pre.FORWARD,
        ("mhc_pre", "backward"): mhc_pre.BACKWARD,
        ("mhc_pre_norm", "forward"): mhc_pre_norm.FORWARD,
        ("mhc_pre_norm", "backward"): mhc_pre_norm.BACKWARD,
        ("mhc_pre_norm_fp8", "forward"): mhc_pre_norm.FORWARD,
        ("sinkhorn", "forward"): sinkhorn.FORWARD,
        ("sinkhorn", "backward"): sinkhorn.BACKWARD,
        ("mhc_post", "forward"): mhc_post.FORWARD,
        ("mhc_post", "backward"): mhc_post.BACKWARD,
        ("mhc_post_pre", "forward"): {"in_turn": in_turn.Forward("triton"), "joined": JOINED},
        ("mhc_post_pre", "backward"): in_turn.Backward("triton"),
        ("mhc_head", "forward"): mhc_pre.FORWARD,
        ("mhc_head", "backward"): mhc_pre.BACKWARD,
        ("mhc_read", "forward"): mhc_read.FORWARD,
        ("mhc_read", "backward"): mhc_read.BACKWARD,
        ("mhc_coefficients", "forward"): mhc_coefficients.FORWARD,
        ("mhc_coefficients", "backward"): mhc_coefficients.BACKWARD,
        ("mhc_single_pass", "forward"): mhc_single_pass.FORWARD,
        ("mhc_single_pass", "backward"): mhc_single_pass.BACKWARD,
        ("mhc_single_pass_fp8", "forward"): mhc_single_pass.FORWARD,
        ("expand", "forward"): expand.FORWARD,
        ("expand", "backward"): expand.BACKWARD,
    },
    {
        "mhc_pre": MhcPreSpec,
        "mhc_pre_norm": MhcPreNormSpec,
        "mhc_pre_norm_fp8": MhcPreNormFp8Spec,
        "mhc_head": MhcHeadSpec,
        "mhc_post_pre": MhcPostPreSpec,
        "mhc_coefficients": MhcCoefficientsSpec,
        "mhc_single_pass": MhcSinglePassSpec,
        "mhc_single_pass_fp8": MhcSinglePassFp8Spec,
    },
    Path(__file__).parent,
    device_target,
)
