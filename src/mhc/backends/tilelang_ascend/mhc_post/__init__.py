"""``mhc_post`` and its gradient for Ascend NPUs."""

from __future__ import annotations

from mhc.backends.tilelang_ascend.kernel import Kernel
from mhc.backends.tilelang_ascend.mhc_post.backward import mhc_post_backward
from mhc.backends.tilelang_ascend.mhc_post.forward import mhc_post

FORWARD, BACKWARD = Kernel(mhc_post), Kernel(mhc_post_backward)
