"""Apple's GPUs, in Macs with Apple silicon."""

from __future__ import annotations

import platform

from kernel_matrix.vendors.system import ask
from kernel_matrix.vendors.vendor import Device, Vendor


def detect() -> list[Device]:
    """Return the GPU of a Mac with Apple silicon, which is part of its processor."""
    if (platform.system(), platform.machine()) != ("Darwin", "arm64"):
        return []
    name = ask(["sysctl", "-n", "machdep.cpu.brand_string"]).first_line or "Apple silicon"
    return [Device("apple", f"{name} GPU", ("metal",), platform.mac_ver()[0])]


VENDOR = Vendor(
    title="Apple",
    kind="GPU",
    gpu=True,
    framework_device="mps",
    build="metal",
    detect=detect,
    why_no_flags="a container on a Mac is in a virtual machine, which does not have the GPU",
    in_containers=False,
    without_device="lowered",
    lacking="a Mac, which alone has the compiler",
    names={
        "metal": "M1 M2 M3 M4 Mac Apple-silicon",
    },
)
