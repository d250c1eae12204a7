"""``mhc_pre`` and its gradients; ``mhc_head`` has the same kernels."""

from __future__ import annotations

from mhc.backends.cute.kernel import Kernel
from mhc.backends.cute.mhc_pre.launches import backward, backward_programs, forward, forward_programs

FORWARD = Kernel(forward, forward_programs)
BACKWARD = Kernel(backward, backward_programs)
