"""Run the compilers of CUDA C++ and of HIP on one source, and read what they say of each kernel."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .figures import code_bytes, figures_of_log

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STATIC_SHARED = re.compile(r"(\d+) bytes smem")
_ERROR = re.compile(r"^(?:ptxas )?.*\b(?:fatal\s*:|fatal error:|error\s*:)\s*.*$", re.MULTILINE)
_HIPCC = (
    "hipcc is not on this machine. `apt-get install hipcc` has one, and so has an image such as rocm/dev-ubuntu-24.04"
)


class UnavailableError(RuntimeError):
    """A compiler that a target needs is not on this machine."""


class CompilerError(RuntimeError):
    """A compiler refused a source."""


def compiler_of(backend: str) -> str:
    """Return the compiler of a vendor: nvcc of CUDA_HOME, of the environment's packages or on PATH; hipcc on PATH.

    Raises:
        UnavailableError: it is not on this machine.
    """
    if backend == "hip":
        program = os.environ.get("KERNEL_MATRIX_HIPCC") or shutil.which("hipcc")
        if program is None:
            raise UnavailableError(_HIPCC)
        return program
    for folder in _cuda_homes():
        if (folder / "bin" / "nvcc").is_file():
            return str(folder / "bin" / "nvcc")
    program = shutil.which("nvcc")
    if program is None:
        raise UnavailableError("nvcc is not on this machine. `pip install 'nvidia-cuda-nvcc>=13'` has one for Linux")
    return program


def _cuda_homes() -> Iterator[Path]:
    """Yield the folders where CUDA's toolkit may be. The first is the program's own, before a stand-in took its place.

    An environment's packages come after it: a person who sets CUDA_HOME means that one.
    """
    if home := os.environ.get("KERNEL_MATRIX_CUDA_HOME"):
        yield Path(home)
    for folder in sys.path:
        yield from sorted(Path(folder or ".").glob("nvidia/cu[0-9]*"), reverse=True)
        yield Path(folder or ".", "nvidia", "cuda_nvcc")


@functools.cache
def identity_of(compiler: str) -> str:
    """Return what a compiler says of its version."""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return " ".join(line for line in lines if not line.startswith("InstalledDir"))  # the folder is no version


def version_of(compiler: str) -> str:
    """Return the version of a compiler, such as ``13.0.88``; all that it says of itself if no version stands there."""
    text = identity_of(compiler)
    version = re.search(r"\bV(\d+(?:\.\d+)+)|HIP version:\s*(\d+(?:\.\d+)+)", text)
    return version[1] or version[2] if version else text


def run_compiler(command: Sequence[str], directory: str | None = None) -> str:
    """Run a compiler and return its log, which is printed as well.

    Raises:
        CompilerError: it failed; the first line says why.
    """
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, errors="replace")
    log = (done.stdout + done.stderr).replace("\0", "")
    log = re.sub(rf"{re.escape(tempfile.gettempdir())}/\S*/", "", log)  # the names of temporary folders say nothing
    print(log, flush=True)  # noqa: T201  into the log of this process
    if done.returncode:
        reason = _ERROR.search(log)
        ended = f"{Path(command[0]).name} ended with status {done.returncode}"
        raise CompilerError(reason[0].strip() if reason else ended)
    return log


def kernels_of(log: str, code: bytes) -> dict[str, dict[str, float]]:
    """Return the figures of each kernel that ptxas names, by its name in the code."""
    kernels = {}
    parts = _ENTRY.split(log)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        shared = _STATIC_SHARED.search(text)
        kernels[name] = {
            **figures_of_log(text),
            "shared": float(shared[1]) if shared else 0.0,
            "bytes": float(len(code)),
            "code_bytes": float(code_bytes(code, name)),
        }
    return kernels


def demangled(names: Sequence[str]) -> list[str]:
    """Return the names as C++ writes them, where this machine has a program that knows."""
    program = shutil.which("cu++filt") or shutil.which("c++filt")
    if program is None or not names:
        return list(names)
    done = subprocess.run([program], input="\n".join(names), capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return lines if done.returncode == 0 and len(lines) == len(names) else list(names)


def asked(command: Sequence[str], directory: str | None = None) -> str:
    """Return what a compiler prints for a question.

    Raises:
        CompilerError: it failed.
    """
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, errors="replace")
    if done.returncode:
        raise CompilerError(done.stderr)
    return done.stdout
