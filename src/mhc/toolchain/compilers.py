"""Compilers as programs: find them, run them, and read what they report of a kernel's resources."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_PTXAS = {
    "registers": r"Used (\d+) registers",
    "stack_bytes": r"(\d+) bytes stack frame",
    "shared_bytes": r"(\d+) bytes smem",
}
_CLANG = {
    "registers": r" VGPRs: (\d+)",
    "stack_bytes": r"ScratchSize \[bytes/lane\]: (\d+)",
    "shared_bytes": r"LDS Size \[bytes/block\]: (\d+)",
}


def find_nvcc() -> str:
    """Return the nvcc of this environment's packages, else the nvcc of ``CUDA_HOME``, else the one on ``PATH``.

    Raises:
        FileNotFoundError: there is none.
    """
    packages = importlib.util.find_spec("nvidia")
    homes = [Path(root, "cu13") for root in (packages.submodule_search_locations or ())] if packages else []
    if os.environ.get("CUDA_HOME"):
        homes.append(Path(os.environ["CUDA_HOME"]))
    for home in homes:
        if (home / "bin" / "nvcc").is_file():
            return str(home / "bin" / "nvcc")
    program = shutil.which("nvcc")
    if program is None:
        raise FileNotFoundError("nvcc is missing: neither among this environment's packages, in CUDA_HOME nor on PATH")
    return program


def cubin_flags(arch: str, *more: str) -> list[str]:
    """Return nvcc's flags for the machine code of ``arch`` (``sm_90``), with a report of its resources."""
    return ["-cubin", f"-arch={arch}", "-O3", *more, "--resource-usage", "-w"]


def compile_source(command: Sequence[str], source: str, suffix: str, out_suffix: str) -> tuple[bytes, str]:
    """Run a compiler's ``command`` on ``source``, and return the file that it writes and its log.

    Raises:
        RuntimeError: the compiler failed; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        text, binary = Path(folder, f"kernel{suffix}"), Path(folder, f"kernel{out_suffix}")
        text.write_text(source)
        done = subprocess.run([*command, "-o", str(binary), str(text)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr or done.stdout or f"{command[0]} exited with status {done.returncode}")
        return binary.read_bytes(), done.stderr + done.stdout


@cache
def identity(compiler: str, flags: tuple[str, ...] = ()) -> str:
    """Return what ``compiler`` says of its version and of its target; ``-march=native`` depends on the machine."""
    commands = [[compiler, "--version"]]
    march = [flag for flag in flags if flag.startswith("-march=")]
    if march:
        commands.append([compiler, *march, "-dM", "-E", "-x", "c++", os.devnull])
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands]
    # The same compiler may be installed in two folders; clang's text names its folder, nvcc's does not.
    return "".join(line for text in outputs for line in text.splitlines(True) if not line.startswith("InstalledDir"))


def ptxas_resources(log: str) -> dict[str, int]:
    """Return what ptxas reports, as nvcc's ``--resource-usage`` prints it."""
    resources = _largest(_PTXAS, log)
    spills = re.findall(r"(\d+) bytes spill stores", log)  # what is loaded again counts once
    if spills:
        resources["spill_bytes"] = max(map(int, spills))
    return resources


def clang_resources(log: str) -> dict[str, int]:
    """Return what clang reports for an AMD GPU, as ``-Rpass-analysis=kernel-resource-usage`` prints it."""
    resources = _largest(_CLANG, log)
    spills = re.findall(r"VGPRs Spill: (\d+)", log)
    if spills:
        resources["spill_bytes"] = 4 * max(map(int, spills))
    return resources


def _largest(patterns: Mapping[str, str], log: str) -> dict[str, int]:
    """Return the largest number of each pattern: of several kernels, the use of the one that uses most."""
    return {name: max(map(int, numbers)) for name, pattern in patterns.items() if (numbers := re.findall(pattern, log))}
