"""Moore Threads' GPUs, which the toolkit MUSA compiles for."""

from __future__ import annotations

from kernel_matrix.vendors.unreached import unreached

VENDOR = unreached(
    "Moore Threads",
    "GPU",
    framework_device="musa",
    lacking="no public wheel has a compiler for them, and LLVM has no target",
    looked="2026-11-22",
    pci="0x1ed5",
)
