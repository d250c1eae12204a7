"""The operators that the backend ``cpp`` has."""

from __future__ import annotations

from mhc.backends import kernels_of
from mhc.backends.cpp import expand, mhc_head, mhc_post, mhc_pre, sinkhorn

KERNELS = kernels_of(mhc_pre=mhc_pre, sinkhorn=sinkhorn, mhc_post=mhc_post, mhc_head=mhc_head, expand=expand)
