"""Inductor's kernels: the reference's equations, compiled."""

from __future__ import annotations

from mhc.backends.inductor.kernel import Kernel
from mhc.backends.reference.operators import KERNELS as REFERENCE

# With one stream a sum is its only summand, so Inductor inlines the iterations of Sinkhorn into one expression. It
# doubles with each iteration: 2**40 reads. Two operations are the most that Inductor may inline there.
# Inductor leaves a rounding out that widening follows. What is read is rounded to x's dtype before its norm, and what
# scales of fp8 are made of.
_NORMED = ("mhc_pre_norm", "mhc_pre_norm_fp8", "mhc_single_pass", "mhc_single_pass_fp8")
_OPTIONS = {
    "sinkhorn": {"realize_opcount_threshold": 2},
    **{op: {"emulate_precision_casts": True} for op in _NORMED},
}

KERNELS = {
    (op, direction): Kernel(kernel.equations, **_OPTIONS.get(op, {})) for (op, direction), kernel in REFERENCE.items()
}
