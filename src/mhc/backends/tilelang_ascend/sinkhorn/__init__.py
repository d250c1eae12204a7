"""``sinkhorn`` and its gradient for Ascend NPUs."""

from __future__ import annotations

from mhc.backends.tilelang_ascend.kernel import Kernel
from mhc.backends.tilelang_ascend.sinkhorn.backward import sinkhorn_backward
from mhc.backends.tilelang_ascend.sinkhorn.forward import sinkhorn

FORWARD, BACKWARD = Kernel(sinkhorn), Kernel(sinkhorn_backward)
