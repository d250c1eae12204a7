"""``mhc_pre`` and its gradient for Ascend NPUs; ``mhc_head`` has the same kernels."""

from __future__ import annotations

from mhc.backends.tilelang_ascend.kernel import Kernel
from mhc.backends.tilelang_ascend.mhc_pre.backward import read_backward, read_columns, read_small
from mhc.backends.tilelang_ascend.mhc_pre.forward import read

FORWARD, BACKWARD = Kernel(read), Kernel(read_backward, read_columns, read_small)
