"""The operators that the backend ``cpp`` has."""

from __future__ import annotations

from pathlib import Path

from mhc.backends import kernels_of
from mhc.backends.cpp import (
    expand,
    mhc_coefficients,
    mhc_head,
    mhc_post,
    mhc_pre,
    mhc_pre_norm,
    mhc_read,
    mhc_single_pass,
    sinkhorn,
)
from mhc.backends.cpp.devices import named_target
from mhc.backends.variants import with_variants
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.mhc_pre import MhcPreSpec

KERNELS = with_variants(
    kernels_of(
        mhc_pre=mhc_pre,
        mhc_pre_norm=mhc_pre_norm,
        sinkhorn=sinkhorn,
        mhc_post=mhc_post,
        mhc_head=mhc_head,
        mhc_read=mhc_read,
        mhc_coefficients=mhc_coefficients,
        mhc_single_pass=mhc_single_pass,
        expand=expand,
    )
    | {
        ("mhc_pre_norm_fp8", "forward"): mhc_pre_norm.FORWARD,
        ("mhc_single_pass_fp8", "forward"): mhc_single_pass.FORWARD,
    },
    {"mhc_pre": MhcPreSpec, "mhc_head": MhcHeadSpec, "mhc_post": MhcPostSpec},
    Path(__file__).parent,
    named_target,
)
