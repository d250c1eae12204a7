"""Huawei's Ascend NPUs: npu-smi lists them, hivmc and bisheng compile for them, containers get them as device files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_matrix.vendors.device_files import driver_finding
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.program import Program
from kernel_matrix.vendors.system import ask
from kernel_matrix.vendors.vendor import Device, Vendor

_PCI_ID = "0x19e5"
_SHARED = ("davinci_manager", "devmm_svm", "hisi_hdc")  # device files that all NPUs of a machine have together
_INSTALL = "install Huawei's CANN toolkit, which no package index has; without it the kernels are lowered"


def detect() -> list[Device]:
    """Return the NPUs that npu-smi lists."""
    return listed(ask(["npu-smi", "info"]).output)


def listed(table: str) -> list[Device]:
    """Return the NPUs of the table of npu-smi: a line of one begins with its number and its name (``910B2``)."""
    names = re.findall(r"^\|\s*\d+\s+(?:Ascend)?(9\d{2}\w*)\s*\|", table, re.MULTILINE)
    return [Device("huawei", f"Ascend {name}", (f"ascend{name.lower()}",)) for name in names]


def _files(dev: Path) -> list[Path]:
    """Return the device files of the single NPUs."""
    return [file for file in sorted(dev.glob("davinci*")) if file.name[7:].isdigit()]


def driver(devices: Sequence[Device], dev: Path = Path("/dev")) -> Finding:
    """Look at the driver and whether this user may open a device file."""
    return driver_finding(
        VENDOR,
        devices,
        _files(dev),
        place=f"{dev}/davinci*",
        group="HwHiAiUser",
        pci_id=_PCI_ID,
        not_offered="a device of Huawei's is on the PCI bus, and npu-smi lists no NPU",
    )


def container_options(dev: Path = Path("/dev")) -> dict[str, Any]:
    """Return the options that give a container the device files of all NPUs, and those that they have together."""
    names = (*(file.name for file in _files(dev)), *_SHARED)
    return {"devices": [f"{dev}/{name}:/dev/{name}:rw" for name in names]}


VENDOR = Vendor(
    title="Huawei",
    kind="NPU",
    gpu=True,
    framework_device="npu",
    detect=detect,
    docker_flags="--device /dev/davinci0 " + " ".join(f"--device /dev/{name}" for name in _SHARED),
    container_options=container_options,
    driver=driver,
    variables=(
        *("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "ASCEND_TOOLKIT_HOME"),
        *("ASCEND_OPP_PATH", "ASCEND_AICPU_PATH"),
    ),
    programs=(
        Program(name="hivmc", install=_INSTALL, homes=("ASCEND_HOME_PATH",)),
        Program(name="bisheng", install=_INSTALL, homes=("BISHENG_HOME",)),
    ),
    names={
        "ascend910b2": "Atlas-A2 910B NPU",
        "ascend950": "Ascend-950 NPU",
    },
)
