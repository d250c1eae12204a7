"""A device that comes with its toolchain and emulates a GPU on the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.vendor import Device, Vendor

# Where the packages of a system describe their OpenCL runtimes.
_DESCRIPTIONS = Path("/etc/OpenCL/vendors")


def stand_in(devices: Sequence[Device], target: str) -> Device:
    """Return the device that a toolchain brings for the target, with the name of the CPU that it runs on."""
    processor = next((device.name for device in devices if device.vendor == "cpu"), "this machine")
    return Device("software", f"software on {processor}", (target,), emulated=True)


def runtimes(_: Sequence[Device], folder: Path = _DESCRIPTIONS) -> Finding:
    """Look for OpenCL runtimes of the system. Those that a toolchain brings with it work without any."""
    lost: list[str] = []
    libraries: list[str] = []
    for file in sorted(Path(os.environ.get("OCL_ICD_VENDORS", folder)).glob("*.icd")):
        library = file.read_text(encoding="utf-8", errors="replace").strip()
        # A name without a folder is looked for by the dynamic linker.
        (lost if Path(library).is_absolute() and not Path(library).exists() else libraries).append(library)
    if libraries:
        return VENDOR.found("good", f"OpenCL runtimes of the system: {', '.join(libraries)}")
    why = (
        f"of the system's OpenCL runtimes the library is not there: {', '.join(lost)}"
        if lost
        else "the system has none"
    )
    text = f"{why}; only OpenCL runtimes that come with a toolchain run kernels"
    remedy = "sudo apt-get install pocl-opencl-icd (Debian, from forky on, for PoCL 7)"
    return VENDOR.found("absent", text, remedy)


VENDOR = Vendor(
    title="software",
    kind="device",
    gpu=False,
    framework_device="cpu",
    driver=runtimes,
    variables=("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"),
    why_no_flags="the device comes with the toolchain or the image, on the CPU",
    with_device="emulated",
    limit="it is a device in software, and runs nothing on hardware",
    stand_in=stand_in,
)
