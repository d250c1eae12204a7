"""MetaX's GPUs, which the toolkit MXMACA compiles for."""

from __future__ import annotations

from kernel_matrix.vendors.unreached import unreached

VENDOR = unreached(
    "MetaX",
    "GPU",
    framework_device="cuda",
    lacking="no public wheel has a compiler for them, and LLVM has no target",
    looked="2026-11-22",
    pci="0x9999",
)
