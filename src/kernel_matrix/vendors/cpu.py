"""The CPU that every machine has, and emulators of other architectures."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernel_matrix.vendors.program import Program
from kernel_matrix.vendors.system import ask
from kernel_matrix.vendors.vendor import Device, Vendor

# The micro-architecture levels of the x86-64 psABI, highest first, each with the flags that it adds to the next one,
# as Linux names them.
X86_LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"},
    "x86-64-v2": {"cx16", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64": {"sse2"},
}

# The targets of other architectures, each with the features that its code uses, as Linux names them: flags of an Arm
# CPU, and extensions of a RISC-V CPU. A job may emulate these.
OTHERS = {
    "aarch64": {
        "neoverse-n1": {"asimd", "atomics", "crc32", "asimdrdm", "asimdhp", "fphp", "lrcpc", "asimddp", "ssbs"},
        "neoverse-v2": {"sve2", "svebitperm", "i8mm", "bf16", "asimdfhm", "rng", "asimddp", "lrcpc", "ssbs"},
    },
    "riscv64": {
        "rv64gc": {"i", "m", "a", "f", "d", "c"},
        "rv64gcv": {"i", "m", "a", "f", "d", "c", "v"},
    },
}

_SMALL_PROGRAM = "#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n"


def detect(info: Path = Path("/proc/cpuinfo")) -> list[Device]:
    """Return the CPU with its name, and the targets whose code it runs."""
    architecture = platform.machine()
    text = info.read_text(encoding="utf-8", errors="replace") if info.exists() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = model.group(1).strip() if model else platform.processor() or architecture
    targets = targets_of(architecture, _features(text))
    return [Device("cpu", f"{name} ({os.cpu_count()} threads)", targets)]


def _features(info: str) -> set[str]:
    """Return what /proc/cpuinfo says that the CPU has: flags (x86), features (Arm) or extensions (RISC-V)."""
    if flags := re.search(r"^(?:flags|Features)\s*:\s*(.+)$", info, re.MULTILINE):
        return set(flags.group(1).split())
    if isa := re.search(r"^isa\s*:\s*rv64([a-z]+)(\S*)$", info, re.MULTILINE):
        return {*isa.group(1).replace("g", "imafd"), *isa.group(2).split("_")}
    return set()


def targets_of(architecture: str, flags: set[str]) -> tuple[str, ...]:
    """Return the targets whose code a CPU runs: its x86-64 level and all lower ones, or its architecture's targets."""
    if architecture not in ("x86_64", "AMD64"):
        others = OTHERS.get(architecture, {})
        return (architecture, *(target for target, features in others.items() if features <= flags))
    if not flags:
        return ("x86-64",)
    levels: list[str] = []
    for level, added in reversed(X86_LEVELS.items()):
        if not added <= flags:  # then it lacks the higher levels too
            break
        levels.append(level)
    return tuple(reversed(levels))


def emulator(devices: Sequence[Device], target: str) -> Device | None:
    """Return QEMU for a target of an architecture that this machine does not have; None for any other target."""
    here = platform.machine()
    architecture = next((name for name, targets in OTHERS.items() if target in targets and name != here), None)
    if architecture is None:
        return None
    processor = next((device.name for device in devices if device.vendor == "cpu"), "this machine")
    return Device("cpu", f"QEMU ({architecture}) on {processor}", (target,), emulated=True)


def _programs_of(architecture: str) -> tuple[Program, Program]:
    """Return what an architecture needs that is emulated: its compiler, and its emulator."""
    return (
        Program(
            name=f"{architecture}-linux-gnu-g++",
            install=f"sudo apt-get install g++-{architecture}-linux-gnu, or use the container of the platform",
            trial=lambda path: try_compiler(path, static=True),
        ),
        Program(
            name=f"qemu-{architecture}",
            names=(f"qemu-{architecture}-static",),
            install="sudo apt-get install qemu-user-static, or use the container of the platform",
        ),
    )


def try_compiler(path: str, *, static: bool = False) -> str:
    """Compile a small program and return what fails: a compiler that lacks its libraries still shows its version."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "main.cc"
        source.write_text(_SMALL_PROGRAM)
        options = ["-static"] if static else []
        fault = ask([path, *options, "-o", f"{folder}/main", str(source)]).fault
    return f"it does not compile a small program: {fault}" if fault else ""


VENDOR = Vendor(
    title="CPU",
    kind="CPU",
    gpu=False,
    framework_device="cpu",
    detect=detect,
    why_no_flags="every container has the CPU",
    hosted=True,
    variables=("CC",),
    programs=(
        Program(
            name="g++",
            install="sudo apt-get install g++",
            variable="CXX",
            trial=try_compiler,
            expected=True,
        ),
        *(program for architecture in OTHERS for program in _programs_of(architecture)),
    ),
    without_device="planned",
    stand_in=emulator,
    stood_in_for=frozenset(target for targets in OTHERS.values() for target in targets),
    names={
        "x86-64-v3": "x86 x86_64 amd64 AVX2 Haswell Zen",
        "x86-64-v4": "x86 x86_64 amd64 AVX-512 Zen4",
        "neoverse-n1": "Arm AArch64 arm64 Graviton2 Altra",
        "neoverse-v2": "Arm AArch64 arm64 Graviton4 Grace SVE2",
        "rv64gcv": "RISC-V riscv64 RVV",
    },
)
