"""The operators that the backend ``pallas`` has."""

from __future__ import annotations

from mhc.backends.pallas import expand, mhc_head, mhc_post, mhc_pre, sinkhorn

KERNELS = {
    ("mhc_pre", "forward"): mhc_pre.FORWARD,
    ("mhc_pre", "backward"): mhc_pre.BACKWARD,
    ("sinkhorn", "forward"): sinkhorn.FORWARD,
    ("sinkhorn", "backward"): sinkhorn.BACKWARD,
    ("mhc_post", "forward"): mhc_post.FORWARD,
    ("mhc_post", "backward"): mhc_post.BACKWARD,
    ("mhc_head", "forward"): mhc_head.FORWARD,
    ("mhc_head", "backward"): mhc_head.BACKWARD,
    ("expand", "forward"): expand.FORWARD,
    ("expand", "backward"): expand.BACKWARD,
}
