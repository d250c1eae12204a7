"""What this machine has: its CPU's instruction sets and its GPUs, asked of the system and not of PyTorch."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.config.model import Vendor

# The micro-architecture levels of the x86-64 psABI, by the last flags that Linux names for each.
_X86_LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"},
    "x86-64-v2": {"cx16", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64": {"sse2"},
}


@dataclass(frozen=True)
class Device:
    """Something that kernels run on: what it is called and which targets it takes."""

    vendor: Vendor
    name: str
    targets: tuple[str, ...]
    driver: str = ""


@dataclass(frozen=True)
class Machine:
    """The devices of this machine."""

    devices: tuple[Device, ...]

    def device_for(self, vendor: Vendor, target: str) -> Device | None:
        """The first device of ``vendor`` that takes code for ``target``.

        One in software comes with the toolchain, and uses the CPU; only the job can find out whether it works here.
        """
        if vendor == "software":
            cpu = next((device.name for device in self.devices if device.vendor == "cpu"), "this machine")
            return Device("software", f"software on {cpu}", (target,))
        return next((d for d in self.devices if d.vendor == vendor and target in d.targets), None)

    def has(self, vendor: Vendor) -> bool:
        """Whether there is any device of ``vendor``."""
        return any(device.vendor == vendor for device in self.devices)


def detect() -> Machine:
    """Look at this machine."""
    return Machine((_cpu(), *_nvidia(), *_amd()))


def _cpu() -> Device:
    arch = platform.machine()
    name, flags = platform.processor() or arch, set()
    info = Path("/proc/cpuinfo")
    if info.exists():
        text = info.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            name = found.group(1).strip()
        if found := re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE):
            flags = set(found.group(1).split())
    return Device("cpu", f"{name} ({os.cpu_count()} threads)", cpu_targets(arch, flags))


def cpu_targets(arch: str, flags: set[str]) -> tuple[str, ...]:
    """The targets that a CPU takes: its x86-64 level and those below it, or its architecture's name."""
    if arch not in ("x86_64", "AMD64"):
        return (arch,)
    if not flags:
        return ("x86-64",)
    levels = list(_X86_LEVELS.items())
    return tuple(
        level for i, (level, _) in enumerate(levels) if set().union(*(needs for _, needs in levels[i:])) <= flags
    )


def _nvidia() -> list[Device]:
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode:
        return []
    rows = [[part.strip() for part in line.split(",")] for line in answer.stdout.splitlines() if line.count(",") == 2]
    return [Device("nvidia", name, (f"sm_{cap.replace('.', '')}",), driver) for name, cap, driver in rows]


def _amd(topology: Path = Path("/sys/class/kfd/kfd/topology/nodes")) -> list[Device]:
    """The GPUs that the amdgpu driver offers for computing; a node with version 0 is the CPU."""
    devices = []
    for properties in sorted(topology.glob("*/properties")):
        found = re.search(r"^gfx_target_version (\d+)$", properties.read_text(), re.MULTILINE)
        if found and (version := int(found.group(1))):
            target = gfx_name(version)
            devices.append(Device("amd", f"AMD {target}", (target,)))
    return devices


def gfx_name(version: int) -> str:
    """The name of the driver's ``gfx_target_version``: 90402 is ``gfx942``, 90010 ``gfx90a``, 110000 ``gfx1100``."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"
