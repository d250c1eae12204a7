"""OpenCL runtimes that make a device of the CPU, and how a process gets to them."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mhc.backends import NoDeviceError

# Where the packages of a system describe their runtimes: one file each, with the name of a library.
_SYSTEM = Path("/etc/OpenCL/vendors")


@dataclass(frozen=True)
class Runtime:
    """A runtime of OpenCL: the name and the version that it reports, and how a person gets it."""

    name: str
    version: str
    install: str = "its wheel is in the lock of the toolchain"

    def is_platform(self, name: str, version: str) -> bool:
        """Return whether a platform that OpenCL finds is this runtime."""
        return name == self.name and re.search(self.version, version) is not None


# By target. Each version is a pattern, because two versions of PoCL may be on one machine.
RUNTIMES = {
    "pocl": Runtime("Portable Computing Language", r"PoCL 3\.0"),
    "oclgrind": Runtime("Oclgrind", r"Oclgrind"),
    "intel-cpu": Runtime("Intel(R) OpenCL", r""),
    "pocl-7": Runtime(
        "Portable Computing Language",
        r"PoCL 7\.",
        "Debian, from forky on: sudo apt-get install pocl-opencl-icd",
    ),
}


def platform_of(target: str) -> Any:
    """Return PyOpenCL's platform for the runtime of ``target``.

    Raises:
        NoDeviceError: PyOpenCL does not import, or the runtime is not installed. The text says which.
    """
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # PoCL and Intel's runtime have caches of their own
    try:
        import pyopencl as cl
    except ImportError as error:
        raise NoDeviceError(f"PyOpenCL does not import: {error}") from error
    runtime = RUNTIMES[target]
    with described():
        try:
            platforms = cl.get_platforms()
        except cl.Error as error:
            raise NoDeviceError(f"OpenCL finds no runtime: {error}") from error
    for platform in platforms:
        if runtime.is_platform(platform.name, platform.version):
            return platform
    names = ", ".join(sorted(platform.name for platform in platforms))
    raise NoDeviceError(f"{target} is not installed ({runtime.install}); OpenCL finds {names or 'nothing'}")


@contextmanager
def described(system: Path = _SYSTEM, prefix: Path = Path(sys.prefix)) -> Iterator[Path]:
    """Describe to OpenCL's loader, while it looks for runtimes, the runtimes that it does not find by itself.

    They are the system's, and Intel's: the description in Intel's wheel names a folder that is not there. The
    runtimes in PyOpenCL's own folder need no description. What a person names in OCL_ICD_VENDORS is kept.
    """
    before = os.environ.get("OCL_ICD_VENDORS")
    folder = Path(before) if before is not None else system
    with tempfile.TemporaryDirectory(prefix="mhc-opencl-") as made:
        files = sorted(folder.glob("*.icd")) if folder.is_dir() else [file for file in (folder,) if file.is_file()]
        for file in files:
            Path(made, file.name).write_bytes(file.read_bytes())
        if (intel := prefix / "lib" / "libintelocl.so").is_file():
            Path(made, "intel-of-the-environment.icd").write_text(f"{intel}\n")
        os.environ["OCL_ICD_VENDORS"] = made
        try:
            yield Path(made)
        finally:
            os.environ.pop("OCL_ICD_VENDORS")
            if before is not None:
                os.environ["OCL_ICD_VENDORS"] = before
