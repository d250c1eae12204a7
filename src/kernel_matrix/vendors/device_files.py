"""Look at the device files of a vendor whose driver gives a machine's users one for each device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.system import is_on_pci_bus
from kernel_matrix.vendors.vendor import Device, Vendor


def driver_finding(
    vendor: Vendor,
    devices: Sequence[Device],
    files: Sequence[Path],
    *,
    place: str,
    group: str,
    pci_id: str,
    not_offered: str,
    remedy: str = "",
) -> Finding:
    """Return whether this user may open a device file, and what to do if not.

    ``place`` says where the files are, ``group`` may open them, and ``not_offered`` is the sentence for a machine that
    has a device of the vendor ``pci_id`` on its bus, which is none of ``devices``. That is broken where there is a
    ``remedy`` for it.
    """
    if devices and any(os.access(file, os.R_OK | os.W_OK) for file in files):
        return vendor.found("good", f"{', '.join(device.name for device in devices)}, {place}")
    if devices:
        join = f"sudo usermod -aG {group} $USER, and log in anew"
        return vendor.found("broken", f"no file of {place} can be opened by this user", join)
    if is_on_pci_bus(pci_id):
        return vendor.found("broken" if remedy else "absent", not_offered, remedy)
    return vendor.found("absent", f"no {vendor.title} {vendor.kind} is here")
