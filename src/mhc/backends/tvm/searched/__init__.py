"""Kernels whose loops a search has arranged: TVM's meta-schedule, the successor of Ansor, for CPUs.

A script says what is computed, and nothing of the order. meta-schedule tried arrangements of its loops on a CPU, and
the fastest is kept as a trace: the steps that make it of the script. ``MHC_TVM_SCHEDULES=searched`` puts these kernels
in the place of those whose loops are written by hand.
"""

from __future__ import annotations

from mhc.backends.tvm import mhc_post, mhc_pre
from mhc.backends.tvm.searched import post, pre
from mhc.backends.tvm.searched.kernel import SearchedKernel

KERNELS = {
    ("mhc_pre", "forward"): SearchedKernel("mhc_pre", pre.forward, mhc_pre.operands, alone=mhc_pre.FORWARD),
    ("mhc_post", "forward"): SearchedKernel("mhc_post", post.forward, mhc_post.operands),
}
