"""The interpreters: C++ that is compiled once, and kept by the hash of its source and of the compiler."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from gpu_emulators.common.errors import EmulatorError, NoCompilerError

SHARED = Path(__file__).with_name("native")  # headers of both interpreters
CACHE = "GPU_EMULATORS_CACHE"  # the variable that names the folder of compiled interpreters
_FLAGS = (
    *("-std=c++20", "-O2", "-ftree-vectorize", "-mavx2", "-mfma", "-mf16c"),
    *("-ffp-contract=off", "-fno-strict-aliasing", "-shared", "-fPIC"),
)


class Region(ctypes.Structure):
    """A range of memory as ``native/regions.h`` describes it: as the kernel sees it, and where it is."""

    _fields_: ClassVar = [
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
        ("writable", ctypes.c_uint32),
    ]


class Found(ctypes.Structure):
    """A finding as ``native/regions.h`` describes it."""

    _fields_: ClassVar = [
        ("kind", ctypes.c_uint32),
        ("record", ctypes.c_uint32),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
        ("wave", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
    ]


def opened(folder: Path, record_size: int) -> ctypes.CDLL:
    """Load the interpreter of a folder, compiled if no earlier one is of the same source.

    Raises:
        NoCompilerError: there is no C++ compiler.
        EmulatorError: the compiler failed.
    """
    loaded = _loaded(folder)
    loaded.find_handler.restype = ctypes.c_void_p
    loaded.run.restype = ctypes.c_uint64
    if loaded.record_size() != record_size:
        raise EmulatorError(f"a record has {loaded.record_size()} bytes in C++ and {record_size} in Python")
    return loaded


def _loaded(folder: Path) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="gpu-emulators-") as made:
        return ctypes.CDLL(str(_file(Path(made), [folder, SHARED])))


def _file(folder: Path, folders: Sequence[Path]) -> Path:
    """Return the file of the interpreter: a kept one, or a new one in ``folder``, and keep a copy of it."""
    compiler = shutil.which(os.environ.get("CXX") or "g++")
    if compiler is None:
        raise NoCompilerError("no C++ compiler is on PATH (Debian: sudo apt-get install g++); CXX names another one")
    files = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".cc", ".h")]
    sources = [(path.name, path.read_bytes()) for path in files]
    identity = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    key = hashlib.sha256(repr((sources, identity, _FLAGS)).encode()).hexdigest()[:24]
    for kept in _folder().glob(f"{key}-*.so"):
        if kept.name == _name(key, kept):
            return kept
    made = Path(folder, "emulator.so")
    includes = [f"-I{one}" for one in folders[1:]]
    command = [compiler, *_FLAGS, *includes, str(folders[0] / "emulator.cc"), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmulatorError(f"{compiler} does not compile the emulator:\n{done.stderr}")
    with contextlib.suppress(OSError):  # the cache is full, or for reading only
        _keep(made, _folder() / _name(key, made))
    return made


def _keep(made: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        part = shutil.copy(made, folder)
        Path(part).replace(place)  # at once: another process may be compiling too


def _name(key: str, file: Path) -> str:
    """Return the name under which a file is kept. A file that was cut short has another one."""
    return f"{key}-{hashlib.sha256(file.read_bytes()).hexdigest()[:24]}.so"


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(CACHE) or Path(base, "gpu_emulators"))
