"""WebGPU on Mesa's Vulkan device for CPUs: lavapipe comes with the machine or the image, wgpu with the toolchain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes.util import find_library
from pathlib import Path

from kernel_matrix.vendors import software
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.vendor import Device, Vendor

_INSTALL = "sudo apt-get install mesa-vulkan-drivers libvulkan1"
# Where Vulkan's loader looks for the descriptions of drivers, and the variables that name files in their place.
_FOLDERS = (Path("/usr/share/vulkan/icd.d"), Path("/etc/vulkan/icd.d"), Path("/usr/local/share/vulkan/icd.d"))
_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")


def stand_in(devices: Sequence[Device], target: str) -> Device:
    """Return the device for the target. Only the job can find out whether it works: its image may have the driver."""
    return Device("webgpu", software.stand_in(devices, target).name, (target,))


def driver(_: Sequence[Device], folders: Sequence[Path] = _FOLDERS) -> Finding:
    """Look whether Vulkan's loader and the description of lavapipe are here."""
    named = [Path(name) for variable in _VARIABLES for name in os.environ.get(variable, "").split(":") if name]
    files = named or [file for folder in folders for file in sorted(folder.glob("*.json"))]
    found = next((file for file in files if file.name.startswith("lvp_icd") and file.is_file()), None)
    if found is None:
        return VENDOR.found("absent", "no Vulkan device in software is here: WebGPU kernels are not run", _INSTALL)
    if find_library("vulkan") is None:
        return VENDOR.found("broken", f"{found} is here, and the loader libvulkan.so.1 is not", _INSTALL)
    return VENDOR.found("good", f"lavapipe, {found}")


VENDOR = Vendor(
    title="WebGPU",
    kind="device",
    gpu=False,
    framework_device="cpu",
    why_no_flags="the device is a program in the image and runs on the CPU",
    driver=driver,
    variables=_VARIABLES,
    with_device="emulated",
    limit="it is a device in software, and runs nothing on hardware",
    stand_in=stand_in,
)
