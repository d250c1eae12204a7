"""Cambricon's MLUs, which the toolkit Neuware compiles for."""

from __future__ import annotations

from kernel_matrix.vendors.unreached import unreached

VENDOR = unreached(
    "Cambricon",
    "MLU",
    framework_device="mlu",
    lacking="no public wheel has a compiler for them, and LLVM has no target",
    looked="2026-11-22",
    pci="0xcabc",
)
