"""The kernels that the reference has: every operator, in both directions."""

from __future__ import annotations

from mhc.backends.reference import (
    expand,
    mhc_coefficients,
    mhc_head,
    mhc_post,
    mhc_post_pre,
    mhc_pre,
    mhc_pre_norm,
    mhc_pre_norm_fp8,
    mhc_read,
    mhc_single_pass,
    mhc_single_pass_fp8,
    sinkhorn,
)
from mhc.backends.reference.kernel import GradientKernel, Kernel
from mhc.ops.mhc_coefficients import MhcCoefficientsGrads
from mhc.ops.mhc_head import MhcHeadGrads
from mhc.ops.mhc_post import MhcPostGrads
from mhc.ops.mhc_post_pre import MhcPostPreGrads
from mhc.ops.mhc_pre import MhcPreGrads
from mhc.ops.mhc_pre_norm import MhcPreNormGrads
from mhc.ops.mhc_read import MhcReadGrads
from mhc.ops.mhc_single_pass import MhcSinglePassGrads
from mhc.ops.sinkhorn import SinkhornGrads

KERNELS = {
    ("mhc_pre", "forward"): Kernel(mhc_pre.forward),
    ("mhc_pre", "backward"): GradientKernel(mhc_pre.backward, mhc_pre.forward, MhcPreGrads),
    ("mhc_pre_norm", "forward"): Kernel(mhc_pre_norm.forward),
    ("mhc_pre_norm", "backward"): GradientKernel(mhc_pre_norm.backward, mhc_pre_norm.forward, MhcPreNormGrads),
    ("mhc_pre_norm_fp8", "forward"): Kernel(mhc_pre_norm_fp8.forward),
    ("sinkhorn", "forward"): Kernel(sinkhorn.forward),
    ("sinkhorn", "backward"): GradientKernel(sinkhorn.backward, sinkhorn.forward, SinkhornGrads),
    ("mhc_post", "forward"): Kernel(mhc_post.forward),
    ("mhc_post", "backward"): GradientKernel(mhc_post.backward, mhc_post.forward, MhcPostGrads),
    ("mhc_post_pre", "forward"): Kernel(mhc_post_pre.forward),
    ("mhc_post_pre", "backward"): GradientKernel(mhc_post_pre.backward, mhc_post_pre.forward, MhcPostPreGrads),
    ("mhc_head", "forward"): Kernel(mhc_head.forward),
    ("mhc_head", "backward"): GradientKernel(mhc_head.backward, mhc_head.forward, MhcHeadGrads),
    ("mhc_read", "forward"): Kernel(mhc_read.forward),
    ("mhc_read", "backward"): GradientKernel(mhc_read.backward, mhc_read.forward, MhcReadGrads),
    ("mhc_coefficients", "forward"): Kernel(mhc_coefficients.forward),
    ("mhc_coefficients", "backward"): GradientKernel(
        mhc_coefficients.backward, mhc_coefficients.forward, MhcCoefficientsGrads
    ),
    ("mhc_single_pass", "forward"): Kernel(mhc_single_pass.forward),
    ("mhc_single_pass", "backward"): GradientKernel(
        mhc_single_pass.backward, mhc_single_pass.forward, MhcSinglePassGrads
    ),
    ("mhc_single_pass_fp8", "forward"): Kernel(mhc_single_pass_fp8.forward),
    ("expand", "forward"): Kernel(expand.forward),
    # The gradient needs nothing of the forward: its golden is its own equation in float64.
    ("expand", "backward"): Kernel(expand.backward),
}
