"""The compilers that turn TileLang's source into machine code: nvcc, hipcc and the C++ compiler."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import tilelang
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
    flags = ["-cubin", f"-arch={arch}", "-O3", "-std=c++17", "--resource-usage", "-w"]
    data, log = _compile(find_nvcc(), flags, (TILELANG_TEMPLATE_PATH, CUTLASS_INCLUDE_DIR), source, ".cu", ".cubin")
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
    flags = ["--genco", f"--offload-arch={arch}", "-O3", "-std=c++17", "-Rpass-analysis=kernel-resource-usage"]
    data, log = _compile(hipcc, flags, (TILELANG_TEMPLATE_PATH,), source, ".hip", ".hsaco")
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
    data, _ = _compile(get_cplus_compiler(), flags, (TILELANG_TEMPLATE_PATH,), source, ".cc", ".so")
    return data


def static_shared_bytes(source: str) -> int:
    """Bytes of the fp32 shared arrays that ``source`` declares."""
    return 4 * sum(int(size) for size in re.findall(r"__shared__[^;\n]*\bfloat \w+\[(\d+)\];", source))


def _compile(
    compiler: str, flags: list[str], includes: tuple[str, ...], source: str, suffix: str, out_suffix: str
) -> tuple[bytes, str]:
    """Run ``compiler`` on ``source``; its output file and what it said. Its own words are the error if it fails.

    With ``MHC_CACHE_DIR`` set, what it made once is kept in that folder and found there by its content.
    """
    entry = _cache_entry(compiler, flags, source)
    found = _read(entry) if entry else None
    if found:
        return found
    with tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        text, binary = Path(folder) / f"kernel{suffix}", Path(folder) / f"kernel{out_suffix}"
        text.write_text(source)
        command = [compiler, *flags, *(f"-I{include}" for include in includes), "-o", str(binary), str(text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr or done.stdout or f"{compiler} exited with status {done.returncode}")
        made = binary.read_bytes(), done.stderr + done.stdout
    if entry:
        _write(entry, *made)
    return made


def _cache_entry(compiler: str, flags: list[str], source: str) -> Path | None:
    """The file that keeps the result, or None without a cache.

    Its name has everything that the result depends on. The folders of the headers differ between environments that hold
    the same TileLang, so its version stands for them.
    """
    folder = os.environ.get("MHC_CACHE_DIR")
    if not folder:
        return None
    key = json.dumps([source, flags, _identity(compiler, tuple(flags)), tilelang.__version__])
    return Path(folder) / f"{hashlib.sha256(key.encode()).hexdigest()}.tilelang"


@cache
def _identity(compiler: str, flags: tuple[str, ...]) -> str:
    """What ``compiler`` says of its version and of its target, as ``-march=native`` is another one elsewhere."""
    commands = [[compiler, "--version"]]
    march = [flag for flag in flags if flag.startswith("-march=")]
    if march:
        commands.append([compiler, *march, "-dM", "-E", "-x", "c++", os.devnull])
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands]
    # Installed twice, nvcc is the same one: its text names no folder, but clang's does.
    return "".join(line for text in outputs for line in text.splitlines(True) if not line.startswith("InstalledDir"))


def _read(entry: Path) -> tuple[bytes, str] | None:
    """The binary and the compiler's words from ``entry``; None if it is not there, or not whole."""
    try:
        head, data = entry.read_bytes().split(b"\n", 1)
        told = json.loads(head)
        if told["sha256"] == hashlib.sha256(told["log"].encode() + data).hexdigest():
            return data, told["log"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _write(entry: Path, data: bytes, log: str) -> None:
    """Write ``entry`` beside its place and move it there, so that no reader meets half of it."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"sha256": hashlib.sha256(log.encode() + data).hexdigest(), "log": log})
    with tempfile.NamedTemporaryFile(dir=entry.parent, prefix=".", suffix=".part", delete=False) as file:
        file.write(head.encode() + b"\n" + data)
    Path(file.name).replace(entry)
