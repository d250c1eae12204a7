"""Hygon's DCUs, which the toolkit DTK, made from ROCm, compiles for."""

from __future__ import annotations

from kernel_matrix.vendors.unreached import unreached

VENDOR = unreached(
    "Hygon",
    "DCU",
    framework_device="cuda",
    lacking="every LLVM that was tried refuses gfx936, and no public wheel has DTK",
    looked="2026-11-22",
)
