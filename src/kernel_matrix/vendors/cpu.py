"""The CPU that every machine has."""

from __future__ import annotations

import os
import platform
import re
import tempfile
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

_SMALL_PROGRAM = "#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n"


def detect(info: Path = Path("/proc/cpuinfo")) -> list[Device]:
    """Return the CPU with its name, and the x86-64 levels or the architecture that it has."""
    architecture = platform.machine()
    text = info.read_text(encoding="utf-8", errors="replace") if info.exists() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)
    name = model.group(1).strip() if model else platform.processor() or architecture
    targets = targets_of(architecture, set(flags.group(1).split()) if flags else set())
    return [Device("cpu", f"{name} ({os.cpu_count()} threads)", targets)]


def targets_of(architecture: str, flags: set[str]) -> tuple[str, ...]:
    """Return the targets whose code a CPU runs: its x86-64 level and those below, or its architecture's name."""
    if architecture not in ("x86_64", "AMD64"):
        return (architecture,)
    if not flags:
        return ("x86-64",)
    levels: list[str] = []
    for level, added in reversed(X86_LEVELS.items()):
        if not added <= flags:  # then it lacks the higher levels too
            break
        levels.append(level)
    return tuple(reversed(levels))


def try_compiler(path: str) -> str:
    """Compile a small program and return what fails: a compiler that lacks its libraries still shows its version."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "main.cc"
        source.write_text(_SMALL_PROGRAM)
        fault = ask([path, "-o", f"{folder}/main", str(source)]).fault
    return f"it does not compile a small program: {fault}" if fault else ""


VENDOR = Vendor(
    title="CPU",
    kind="CPU",
    gpu=False,
    framework_device="cpu",
    detect=detect,
    docker_flags="",
    why_no_flags="every container has the CPU",
    hosted=True,
    programs=(
        Program(
            name="g++",
            install="sudo apt-get install g++",
            variable="CXX",
            trial=try_compiler,
            expected=True,
        ),
    ),
    without_device="planned",
)
