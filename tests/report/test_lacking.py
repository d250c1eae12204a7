"""A lane that did not run says what it needs, as `doctor` does."""

from __future__ import annotations

import pytest

from kernel_matrix.report.lacking import lacking

NEEDS = {
    ("ascend/ascend910b2/triton-ascend-3.2", "lowered"): (
        "To compile it, hivmc is needed: install Huawei's CANN toolkit, which no package index has",
        "('runs: false')",
    ),
    ("rocm/gfx942/tilelang-0.1.8", "lowered"): ("To compile it, hipcc is needed", "AMD's GPU for gfx942"),
    ("rocm/gfx942/triton-3.7", "emulated"): ("To run on the device itself, this is needed: AMD's GPU for gfx942",),
    ("cuda/sm_100/triton-3.7", "compiled"): ("To run it, this is needed: NVIDIA's GPU for sm_100, also called B100",),
    ("cuda/sm_80/reference", "planned"): ("This toolchain compiles nothing without the device.",),
    ("metax/xcore1000/reference", "planned"): ("no public wheel has a compiler for them",),
    ("metal/metal/tvm-0.27", "lowered"): ("a Mac, which alone has the compiler",),
    ("cpu-llvm/x86-64-v3/tvm-0.27", "planned"): ("To make code, g++ is needed",),
}
NOTHING = [
    ("cuda/sm_90/triton-3.7", "ran"),
    ("cpu-llvm/x86-64-v3/reference", "planned"),  # every machine has one
    ("cpu-llvm/x86-64-v3/tvm-0.27", "emulated"),
    ("cuda/sm_90/of-another-report", "planned"),
    ("nowhere/sm_90/triton-3.7", "planned"),
]


@pytest.mark.parametrize(("lane", "reached"), NEEDS)
def test_a_lane_says_what_it_needs(matrix, lane, reached):
    text = lacking(matrix, lane, reached)
    assert [part for part in NEEDS[lane, reached] if part not in text] == []
    if reached in ("compiled", "emulated"):
        assert "To compile it" not in text, "it is compiled"


@pytest.mark.parametrize(("lane", "reached"), NOTHING)
def test_a_lane_that_needs_nothing_says_nothing(matrix, lane, reached):
    assert lacking(matrix, lane, reached) == ""
