"""``mhc_head`` and its gradients: the kernels of ``mhc_pre``, with as many mixes as there are streams."""

from __future__ import annotations

from mhc.backends.cpp import mhc_pre

FORWARD, BACKWARD = mhc_pre.FORWARD, mhc_pre.BACKWARD["plain"]
