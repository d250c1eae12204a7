"""``mhc_pre`` and its gradients; ``mhc_head`` has the same kernels."""

from __future__ import annotations

from mhc.backends.cpp.kernel import Kernel
from mhc.backends.cpp.mhc_pre.launches import backward, forward

GRADIENTS = (
    "mhc_pre_factors",
    "mhc_pre_grad_x",
    "mhc_pre_sums",
    "mhc_pre_grad_phi_gamma",
    "mhc_pre_grad_alpha_bias",
)
FORWARD = Kernel("mhc_pre", ("mhc_pre_forward",), forward)
BACKWARD = Kernel("mhc_pre", GRADIENTS, backward)
