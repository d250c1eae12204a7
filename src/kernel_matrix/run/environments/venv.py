"""An isolated environment made from the toolchain's lock file, by uv; made once per content of the lock."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel_matrix.base.locking import locked
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import InstallError, Interpreter, Prepare, Request

# What pip is told by its environment, uv is told by its own where nobody has: the same wheels on the same machine.
_PIP_TO_UV = {
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_CERT": "SSL_CERT_FILE",
}


@contextmanager
def executor() -> Iterator[Prepare]:
    """Every toolchain gets the environment of its lock file."""
    yield prepare


def prepare(request: Request) -> Interpreter:
    """Make the environment, or take the one that was made from the same lock.

    Raises:
        InstallError: uv's own words.
    """
    lock = request.lock
    flavour = "gpu" if request.gpu else "cpu"
    version = ".".join(str(part) for part in sys.version_info[:3])
    key = hashlib.sha256(f"{flavour} {version} {lock.read_text(encoding='utf-8')}".encode()).hexdigest()[:10]
    folder = request.build / "envs" / f"{lock.stem}-{flavour}-{key}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        return LocalInterpreter(python)
    with locked(folder.with_name(f"{folder.name}.lock"), wait=True):  # another run may be making it
        if not complete.exists():
            request.say(f"making the environment of {lock.name}")
            shutil.rmtree(folder, ignore_errors=True)
            uv("venv", "--python", sys.executable, "--no-project", str(folder))
            backend = torch_backend(python, lock, gpu=request.gpu)
            uv("pip", "install", "--python", str(python), *backend, "-r", str(lock))
            complete.touch()
    return LocalInterpreter(python)


def torch_backend(python: Path, lock: Path, *, gpu: bool) -> list[str]:
    """Where PyTorch comes from: configured wheel folders if one there fits, else PyTorch's own index, which uv knows.

    The package index's default build brings gigabytes of CUDA libraries, so a CPU machine must not take that one.
    """
    pins = [line for line in lock.read_text(encoding="utf-8").splitlines() if line.startswith("torch==")]
    if not pins:
        return []
    if gpu:
        return ["--torch-backend", "auto"]
    try:
        uv("pip", "install", "--python", str(python), "--no-index", "--no-deps", "--dry-run", pins[0].split()[0])
    except InstallError:
        return ["--torch-backend", "cpu"]
    return []


def uv(*arguments: str) -> str:
    """Run uv with pip's settings and return what it says.

    Raises:
        InstallError: it failed, with all that it said.
    """
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise InstallError("uv is not installed beside this interpreter nor on PATH. Install it: pip install uv")
    environment = dict(os.environ)
    for pip, own in _PIP_TO_UV.items():
        if pip in environment and own not in environment:
            value = environment[pip]
            environment[own] = ",".join(value.split()) if own == "UV_FIND_LINKS" else value
    # Under --dry-run --no-index uv would also refuse a cached wheel of another index: exactly what is asked there.
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise InstallError(f"$ uv {' '.join(arguments)}\n{done.stderr.strip()}")
    return done.stdout + done.stderr
