"""The compilers that turn TileLang's source into machine code: nvcc, hipcc and the C++ compiler."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tilelang.contrib.cc import get_cplus_compiler
from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

# None of these changes a result: no addition is reordered, no operation becomes approximate. TileLang's C reads the
# bits of a float through a pointer to an integer, hence the first; the peeling limit keeps the loops over lanes whole,
# so that they become vectors; sqrtf need not set errno.
CPU_FLAGS = (
    "-fno-strict-aliasing",
    "-O3",
    "--param=max-completely-peel-times=7",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-w",
)


def find_nvcc() -> str:
    """Nvcc of this environment's own packages, else of ``CUDA_HOME``, else on the path.

    Raises:
        FileNotFoundError: there is none.
    """
    wheels = importlib.util.find_spec("nvidia")
    folders = [Path(root) / "cu13" for root in (wheels.submodule_search_locations or () if wheels else ())]
    if os.environ.get("CUDA_HOME"):
        folders.append(Path(os.environ["CUDA_HOME"]))
    for folder in folders:
        if (folder / "bin" / "nvcc").is_file():
            return str(folder / "bin" / "nvcc")
    found = shutil.which("nvcc")
    if found is None:
        raise FileNotFoundError("nvcc is missing: neither among this environment's packages, in CUDA_HOME nor on PATH")
    return found


def cubin(source: str, arch: str) -> tuple[bytes, dict[str, int]]:
    """Compile CUDA ``source`` for ``arch`` (``sm_90``); the machine code, and what ptxas tells of it."""
    command = [
        *(find_nvcc(), "-cubin", f"-arch={arch}", "-O3", "-std=c++17", "--resource-usage", "-w"),
        *(f"-I{TILELANG_TEMPLATE_PATH}", f"-I{CUTLASS_INCLUDE_DIR}"),
    ]
    data, log = _compile(command, source, ".cu", ".cubin")
    patterns = {
        "registers": r"Used (\d+) registers",
        "stack_bytes": r"(\d+) bytes stack frame",
        "shared_bytes": r"(\d+) bytes smem",
    }
    resources = {name: int(found[1]) for name, pattern in patterns.items() if (found := re.search(pattern, log))}
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    if spills:
        resources["spill_bytes"] = int(spills[1]) + int(spills[2])
    return data, resources


def hsaco(source: str, arch: str, hipcc: str) -> tuple[bytes, dict[str, int]]:
    """Compile HIP ``source`` for ``arch`` (``gfx942``) with ``hipcc``; the code object, and what clang tells of it."""
    command = [
        *(hipcc, "--genco", f"--offload-arch={arch}", "-O3", "-std=c++17", f"-I{TILELANG_TEMPLATE_PATH}"),
        "-Rpass-analysis=kernel-resource-usage",
    ]
    data, log = _compile(command, source, ".hip", ".hsaco")
    patterns = {
        "registers": r" VGPRs: (\d+)",
        "stack_bytes": r"ScratchSize \[bytes/lane\]: (\d+)",
        "shared_bytes": r"LDS Size \[bytes/block\]: (\d+)",
    }
    resources = {name: int(found[1]) for name, pattern in patterns.items() if (found := re.search(pattern, log))}
    spills = re.search(r"VGPRs Spill: (\d+)", log)
    if spills:
        resources["spill_bytes"] = 4 * int(spills[1])
    return data, resources


def shared_object(source: str, march: str) -> bytes:
    """Compile C++ ``source`` for the CPU ``march``; the shared object."""
    flags = [*CPU_FLAGS, f"-march={march}"]
    if platform.machine() == "x86_64":
        # Compilers prefer half vectors on machines that have whole ones; without AVX-512 this changes nothing.
        flags.append("-mprefer-vector-width=512")
    data, _ = _compile([get_cplus_compiler(), *flags, f"-I{TILELANG_TEMPLATE_PATH}"], source, ".cc", ".so")
    return data


def static_shared_bytes(source: str) -> int:
    """Bytes of the fp32 shared arrays that ``source`` declares."""
    return 4 * sum(int(size) for size in re.findall(r"__shared__[^;\n]*\bfloat \w+\[(\d+)\];", source))


def _compile(command: list[str], source: str, suffix: str, out_suffix: str) -> tuple[bytes, str]:
    """Run a compiler on ``source``; its output file and what it said. Its own words are the error if it fails."""
    with tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        text, binary = Path(folder) / f"mhc_pre{suffix}", Path(folder) / f"mhc_pre{out_suffix}"
        text.write_text(source)
        done = subprocess.run([*command, "-o", str(binary), str(text)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr or done.stdout or f"{command[0]} exited with status {done.returncode}")
        return binary.read_bytes(), done.stderr + done.stdout
