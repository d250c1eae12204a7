"""Intel's GPUs: the xe and i915 drivers list them, ocloc compiles for them, and containers get them as device files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_matrix.vendors.device_files import driver_finding
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.program import Program
from kernel_matrix.vendors.system import texts_in
from kernel_matrix.vendors.vendor import Device, Vendor

_PCI_ID = "0x8086"

# The beginnings of PCI device ids, as the Linux drivers list them. Other GPUs of Intel's are no target here.
_TARGETS = {
    "0x4f8": "dg2",
    "0x56a": "dg2",
    "0x56b": "dg2",
    "0x56c": "dg2",
    "0x569": "dg2",
    "0xe20": "bmg",
    "0xe21": "bmg",
    "0x642": "lnl",
    "0x64a": "lnl",
    "0x64b": "lnl",
    "0x0bd": "pvc",
    "0x0be": "pvc",
    "0x0b6": "pvc",
    "0xb08": "ptl-h",
    "0xb09": "ptl-h",
    "0xb0a": "ptl-h",
    "0xb0b": "ptl-h",
}


def detect(drm: Path = Path("/sys/class/drm")) -> list[Device]:
    """Return the GPUs that a driver of Intel's has a render node for, and whose target is known."""
    nodes = texts_in(sorted(drm.glob("renderD*/device")), "vendor", "device")
    known = ((device, target_of(device)) for vendor, device in nodes if vendor == _PCI_ID)
    return [Device("intel", f"Intel GPU {device}", (target,)) for device, target in known if target]


def target_of(device: str) -> str | None:
    """Return ocloc's name of the GPU with a PCI device id such as ``0xe20b``, or None if it is no target here."""
    return _TARGETS.get(device[:5])


def driver(devices: Sequence[Device], folder: Path = Path("/dev/dri")) -> Finding:
    """Look at the driver and whether this user may open a device file."""
    return driver_finding(
        VENDOR,
        devices,
        sorted(folder.glob("renderD*")),
        place=str(folder),
        group="render",
        pci_id=_PCI_ID,
        not_offered="a GPU of Intel's is on the PCI bus, and it is no target here or its driver is not loaded",
    )


def container_options(dev: Path = Path("/dev")) -> dict[str, Any]:
    """Return the options that give a container the device files of all GPUs, and their groups as numbers."""
    groups = sorted({file.stat().st_gid for file in (dev / "dri").glob("renderD*")})
    return {"devices": [f"{dev}/dri:/dev/dri:rw"], "group_add": groups}


VENDOR = Vendor(
    title="Intel",
    kind="GPU",
    gpu=True,
    framework_device="xpu",
    build="xpu",
    detect=detect,
    docker_flags="--device /dev/dri --group-add $(stat -c %g /dev/dri/renderD128)",
    container_options=container_options,
    image_flags={"podman": "--device=/dev/dri --group-add=keep-groups"},
    driver=driver,
    variables=("ZE_AFFINITY_MASK", "ONEAPI_ROOT"),
    programs=(
        Program(
            name="ocloc",
            install="install Intel's offline compiler (Debian: sudo apt-get install intel-ocloc libigc2 libigdfcl2, "
            "from forky on), or use its container",
        ),
    ),
    names={
        "dg2": "Arc A770 Alchemist Xe-HPG",
        "bmg": "Arc B580 Battlemage Xe2",
        "lnl": "Lunar-Lake Xe2",
        "pvc": "Max-1550 Ponte-Vecchio Xe-HPC",
        "ptl-h": "Panther-Lake Xe3",
    },
)
