"""``expand`` and its gradient for Ascend NPUs."""

from __future__ import annotations

from mhc.backends.tilelang_ascend.expand.backward import expand_backward
from mhc.backends.tilelang_ascend.expand.forward import expand
from mhc.backends.tilelang_ascend.kernel import Kernel

FORWARD, BACKWARD = Kernel(expand), Kernel(expand_backward)
