"""The operators that the backend ``cute`` has; the small matrices of ``sinkhorn`` do not suit it."""

from __future__ import annotations

from mhc.backends.cute import expand, mhc_head, mhc_post, mhc_pre

KERNELS = {
    ("mhc_pre", "forward"): mhc_pre.FORWARD,
    ("mhc_pre", "backward"): mhc_pre.BACKWARD,
    ("mhc_post", "forward"): mhc_post.FORWARD,
    ("mhc_post", "backward"): mhc_post.BACKWARD,
    ("mhc_head", "forward"): mhc_head.FORWARD,
    ("mhc_head", "backward"): mhc_head.BACKWARD,
    ("expand", "forward"): expand.FORWARD,
    ("expand", "backward"): expand.BACKWARD,
}
