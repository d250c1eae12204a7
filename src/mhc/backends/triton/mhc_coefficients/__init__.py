"""``mhc_coefficients`` and its gradient in Triton: the kernels of ``mhc_pre``, which then read no layer's input.

It has those variants of ``mhc_pre`` whose launches for the coefficients are not one with the read.
"""

from __future__ import annotations

from mhc.backends.triton import mhc_pre

NAMES = ("products", "registers", "tf32", "bf16x3")
FORWARD = {name: mhc_pre.FORWARD[name] for name in NAMES}
BACKWARD = {name: mhc_pre.BACKWARD[name] for name in NAMES}
