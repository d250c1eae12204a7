"""``mhc_head`` in Triton: ``mhc_pre`` without the coefficients that write back."""

from mhc.backends.triton import mhc_pre

run, compile = mhc_pre.run, mhc_pre.compile
