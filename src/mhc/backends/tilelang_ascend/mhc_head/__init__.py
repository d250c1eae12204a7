"""``mhc_head`` and its gradient for Ascend NPUs: the kernels of ``mhc_pre``, whose specialisation has fewer mixes."""

from __future__ import annotations

from mhc.backends.tilelang_ascend.mhc_pre import BACKWARD, FORWARD

__all__ = ["BACKWARD", "FORWARD"]
