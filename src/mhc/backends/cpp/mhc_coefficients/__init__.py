"""``mhc_coefficients`` and its gradients: the kernels of ``mhc_pre``, which then read no layer's input."""

from __future__ import annotations

from mhc.backends.cpp import mhc_pre

FORWARD, BACKWARD = mhc_pre.FORWARD["plain"], mhc_pre.BACKWARD["plain"]
