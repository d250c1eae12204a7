"""Intel's offline compiler ``ocloc``: OpenCL C becomes machine code of a GPU, and no GPU is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# As ocloc names them: Arc A (dg2), Arc B (bmg), Lunar Lake (lnl), Data Center Max (pvc), Panther Lake (ptl-h).
DEVICES = ("dg2", "bmg", "lnl", "pvc", "ptl-h")

# What the compiler writes of each kernel into the binary's description (.ze_info, YAML); a size of zero is left out.
_FIGURES = {
    "registers": "grf_count",
    "shared_bytes": "slm_size",
    "stack_bytes": "private_size",
    "spill_bytes": "spill_size",
}


def find_ocloc() -> str | None:
    """Return the ``ocloc`` on ``PATH``, or None: then there is source, and nothing compiles it."""
    return shutil.which("ocloc")


def machine_code(ocloc: str, device: str, source: str) -> tuple[bytes, dict[str, int]]:
    """Compile OpenCL C for ``device``, and return the binary and the largest figure of its kernels for each resource.

    ``registers`` is the number of 32-byte (on pvc 64-byte) registers of a hardware thread; the rest is in bytes.

    Raises:
        RuntimeError: the compiler failed, or its binary has no description; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="mhc-") as name:
        folder = Path(name)
        (folder / "kernel.cl").write_text(source)
        options = ["-options", "-cl-std=CL3.0", "-output", "kernel", "-out_dir", "made"]
        _run([ocloc, "compile", "-q", "-file", "kernel.cl", "-device", device, *options], folder)
        [binary] = (folder / "made").glob("kernel*.bin")
        _run([ocloc, "disasm", "-q", "-file", str(binary), "-dump", "parts", "-device", device], folder)
        return binary.read_bytes(), figures((folder / "parts" / ".ze_info").read_text())


def figures(description: str) -> dict[str, int]:
    """Return the largest figure of all kernels for each resource, from the text of ``.ze_info``.

    Raises:
        RuntimeError: it describes no kernel.
    """
    if "grf_count:" not in description:
        raise RuntimeError(f"ocloc describes no kernel: {description[:200]!r}")
    numbers = {name: re.findall(rf"^ +{key}: +(\d+)$", description, re.MULTILINE) for name, key in _FIGURES.items()}
    return {name: max(map(int, sizes), default=0) for name, sizes in numbers.items()}


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr + done.stdout or f"ocloc exited with status {done.returncode}")
