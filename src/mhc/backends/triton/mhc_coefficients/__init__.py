"""``mhc_coefficients`` and its gradient in Triton: the kernels of ``mhc_pre``, which then read no layer's input."""

from __future__ import annotations

from mhc.backends.triton import mhc_pre

FORWARD, BACKWARD = mhc_pre.FORWARD, mhc_pre.BACKWARD
