"""AMD's GPUs: the amdgpu driver lists them, hipcc compiles for them, and containers get them as device files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_matrix.job.ahead.targets import emulated, of_vendor, products
from kernel_matrix.vendors import software
from kernel_matrix.vendors.device_files import driver_finding
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.program import Program
from kernel_matrix.vendors.system import texts_in
from kernel_matrix.vendors.vendor import Device, Vendor

_EMULATED = emulated(of_vendor("gfx").values())
_PCI_ID = "0x1002"
_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")


def detect(topology: Path = _TOPOLOGY) -> list[Device]:
    """Return the GPUs that the amdgpu driver offers for computing; a node with version 0 is a CPU."""
    devices = []
    # A container sees the nodes of all GPUs, and may only read the nodes of its own GPUs.
    for (text,) in texts_in(sorted(topology.glob("*")), "properties"):
        version = re.search(r"^gfx_target_version (\d+)$", text, re.MULTILINE)
        if version and int(version.group(1)):
            target = target_of(int(version.group(1)))
            devices.append(Device("amd", f"AMD {target}", (target,)))
    return devices


def target_of(version: int) -> str:
    """Return the target of the driver's ``gfx_target_version``: 90402 is ``gfx942``, 90010 ``gfx90a``."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def stand_in(devices: Sequence[Device], target: str) -> Device | None:
    """Return an emulated GPU for a target that the emulator has, on a machine without an AMD GPU; None for others."""
    if target not in _EMULATED or any(device.vendor == "amd" for device in devices):
        return None
    name = software.stand_in(devices, target).name.removeprefix("software on ")
    return Device("amd", f"AMD GPU, emulated on {name}", _EMULATED, emulated=True)


def driver(devices: Sequence[Device], file: Path = Path("/dev/kfd")) -> Finding:
    """Look at the driver and whether this user may open its device file."""
    return driver_finding(
        VENDOR,
        devices,
        [file],
        place=str(file),
        group="render,video",
        pci_id=_PCI_ID,
        not_offered="an AMD GPU is on the PCI bus, and amdgpu offers nothing to compute on",
        remedy="sudo modprobe amdgpu",
    )


def container_options(dev: Path = Path("/dev")) -> dict[str, Any]:
    """Return the options that give a container the device files of all GPUs, and their groups.

    The groups are numbers: these differ from host to host, and an image does not know the host's names.
    """
    files = [dev / "kfd", *sorted((dev / "dri").glob("renderD*"))]
    groups = sorted({file.stat().st_gid for file in files if file.exists()})
    return {"devices": [f"{dev}/{name}:/dev/{name}:rw" for name in ("kfd", "dri")], "group_add": groups}


def build_variables(targets: Sequence[str]) -> dict[str, str]:
    """Return the variables by which build systems take the targets."""
    return {"PYTORCH_ROCM_ARCH": ";".join(targets), "HIPARCHS": ";".join(targets)}


VENDOR = Vendor(
    title="AMD",
    kind="GPU",
    gpu=True,
    framework_device="cuda",  # frameworks use this word in their builds for ROCm too
    build="rocm",
    detect=detect,
    docker_flags="--device /dev/kfd --device /dev/dri --group-add $(stat -c %g /dev/kfd)",
    container_options=container_options,
    image_flags={"apptainer": "--rocm", "podman": "--device=/dev/kfd --device=/dev/dri --group-add=keep-groups"},
    driver=driver,
    build_variables=build_variables,
    variables=("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "KERNEL_MATRIX_HIPCC"),
    programs=(
        Program(
            name="hipcc",
            install="install ROCm 7 (Debian: sudo apt-get install hipcc, from forky on), or use its container",
            homes=("ROCM_PATH",),
            folder="/opt/rocm",
        ),
    ),
    stand_in=stand_in,
    stood_in_for=frozenset(_EMULATED),
    names=products("gfx"),
    known=frozenset(of_vendor("gfx")),
)
