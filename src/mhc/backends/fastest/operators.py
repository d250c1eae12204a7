"""The operators that the backend ``fastest`` has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mhc.backends import Kernel, in_turn
from mhc.backends.cpp import mhc_head, mhc_post, mhc_pre, sinkhorn
from mhc.backends.cpp.mhc_pre.one_read import OneRead
from mhc.backends.triton.kernel import device_target
from mhc.backends.triton.mhc_post_pre import JOINED
from mhc.backends.triton.mhc_pre.overlapped import WIDE
from mhc.backends.triton.operators import KERNELS as TRITON
from mhc.backends.variants import Variant, with_variants
from mhc.ops.mhc_coefficients import MhcCoefficientsSpec
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.mhc_post_pre import MhcPostPreSpec
from mhc.ops.mhc_pre import MhcPreSpec
from mhc.ops.sinkhorn import SinkhornSpec

# The kernels in C++ that were faster than Triton's somewhere. Where an operator has variants, `plain` never was.
_CPP: dict[tuple[str, str], Variant] = {
    ("mhc_pre", "forward"): mhc_pre.FORWARD["resident"],
    ("mhc_pre", "backward"): OneRead(TRITON["mhc_pre", "backward"]),
    ("mhc_head", "forward"): mhc_head.FORWARD["resident"],
    ("sinkhorn", "forward"): sinkhorn.FORWARD,
    ("mhc_post", "forward"): mhc_post.FORWARD["columns"],
    ("mhc_post", "backward"): mhc_post.BACKWARD["columns"],
}
_MORE: dict[tuple[str, str], dict[str, Variant]] = {("mhc_pre", "forward"): {"wide": WIDE}}  # Triton's, of other bits


def _kernels() -> dict[tuple[str, str], Kernel | dict[str, Variant]]:
    """Return Triton's kernels, each together with the kernel in C++ if there is one."""
    table: dict[tuple[str, str], Kernel | dict[str, Variant]] = {
        key: {"triton": kernel, "cpp": _CPP[key], **_MORE.get(key, {})} if key in _CPP else kernel
        for key, kernel in TRITON.items()
    }
    coefficients: Any = TRITON["mhc_coefficients", "forward"]
    table["mhc_coefficients", "forward"] = {"triton": coefficients, "bf16x3": coefficients.variants["bf16x3"]}
    table["mhc_post_pre", "forward"] = {"in_turn": in_turn.Forward("fastest"), "joined": JOINED}
    table["mhc_post_pre", "backward"] = in_turn.Backward("fastest")
    return table


KERNELS = with_variants(
    _kernels(),
    {
        "mhc_pre": MhcPreSpec,
        "mhc_coefficients": MhcCoefficientsSpec,
        "mhc_head": MhcHeadSpec,
        "mhc_post": MhcPostSpec,
        "mhc_post_pre": MhcPostPreSpec,
        "sinkhorn": SinkhornSpec,
    },
    Path(__file__).parent,
    device_target,
)
