"""Gradient of ``mhc_head`` in Triton: that of ``mhc_pre`` without the coefficients that write back."""

from mhc.backends.triton import mhc_pre_backward

run, compile = mhc_pre_backward.run, mhc_pre_backward.compile
