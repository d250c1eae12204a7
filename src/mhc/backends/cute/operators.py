"""The operators that the backend ``cute`` has; the small matrices of ``sinkhorn`` do not suit it."""

from __future__ import annotations

from mhc.backends import kernels_of
from mhc.backends.cute import expand, mhc_head, mhc_post, mhc_pre

KERNELS = kernels_of(mhc_pre=mhc_pre, mhc_post=mhc_post, mhc_head=mhc_head, expand=expand)
