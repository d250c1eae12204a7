"""A device that comes with its toolchain and emulates a GPU on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_matrix.vendors.vendor import Device, Vendor


def detect() -> list[Device]:
    """Return nothing: no machine has such a device before a job brings it."""
    return []


def stand_in(devices: Sequence[Device], target: str) -> Device:
    """Return the device that a toolchain brings for the target, with the name of what it really runs on."""
    processor = next((device.name for device in devices if device.vendor == "cpu"), "this machine")
    return Device("software", f"software on {processor}", (target,), emulated=True)


VENDOR = Vendor(
    title="software",
    kind="device",
    gpu=False,
    framework_device="cpu",
    detect=detect,
    docker_flags="",
    why_no_flags="the device comes with the toolchain and runs on the CPU",
    with_device="emulated",
    limit="it is a device in software, and runs nothing on hardware",
    stand_in=stand_in,
)
