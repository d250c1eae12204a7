"""The kernels that TVM has: every operator, in both directions."""

from __future__ import annotations

import os

from mhc.backends import kernels_of
from mhc.backends.tvm import expand, macros, mhc_post, mhc_pre, searched, sinkhorn

macros.find_parsers_by_frames()

KERNELS = kernels_of(mhc_pre=mhc_pre, sinkhorn=sinkhorn, mhc_post=mhc_post, expand=expand) | {
    ("mhc_head", "forward"): mhc_pre.HEAD_FORWARD,
    ("mhc_head", "backward"): mhc_pre.HEAD_BACKWARD,
}
if os.environ.get("MHC_TVM_SCHEDULES") == "searched":
    KERNELS |= searched.KERNELS
