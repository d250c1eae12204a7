"""Doctor's checks of every machine: Python, uv, the Docker engine, the disk, the folders, and the network."""

from __future__ import annotations

import os
import shutil
import ssl
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernel_matrix.base.installation import lacking
from kernel_matrix.diagnosis import diagnose
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.system import last_line

_GIB = 1 << 30
_GIB_OF_AN_ENVIRONMENT = 2  # with its part of uv's cache
_GIB_OF_CACHES = 2  # of the compilers
_AUTHORITIES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def python() -> Finding:
    """Look at the version of this Python."""
    text = f"{'.'.join(str(part) for part in sys.version_info[:3])} at {sys.executable}"
    if (3, 11) <= sys.version_info < (3, 14):
        return Finding("Python", "good", text)
    return Finding(
        "Python",
        "broken",
        f"{text}; 3.11 to 3.13 is needed",
        "start the harness with another Python, such as python3.12",
        needed=True,
    )


def installer() -> Finding:
    """Ask uv for its version."""
    try:
        return Finding("uv", "good", uv("--version").strip())
    except InstallError as error:
        return Finding(
            "uv",
            "broken",
            str(error).splitlines()[0],
            "install the harness with all that it needs: uv is a part of that",
            needed=True,
        )


def docker_engine() -> Finding:
    """Ask the Docker engine that jobs would run in."""
    try:
        from kernel_matrix.doctor import engine_check  # its library is an extra
    except ModuleNotFoundError as error:
        text = "its library is not installed; the executor venv does without"
        return Finding("Docker", "absent", text, lacking(error))
    return engine_check.docker_engine()


def room(build: Path, environments: int) -> Finding:
    """Ask whether the disk of the build folder has enough free for so many environments."""
    folder = _existing(build)
    free = shutil.disk_usage(folder).free
    text = f"{free / _GIB:.0f} GiB free at {folder}"
    wanted = _GIB_OF_AN_ENVIRONMENT * environments + _GIB_OF_CACHES
    if free < wanted * _GIB:
        remedy = "uv cache prune; rm -r build/envs; or give the command --build /larger/disk"
        return Finding("disk", "broken", f"{text}; all environments together want {wanted}", remedy)
    return Finding("disk", "good", text)


def writable_folders(build: Path) -> Iterator[Finding]:
    """Write to every folder that a run writes to."""
    cache = os.environ.get("UV_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    yield _writable("build folder", build, "give the command --build /writable/folder", needed=True)
    yield _writable("home", Path.home(), "export HOME=/writable/folder (toolchains keep caches below it)")
    yield _writable("temporary folder", Path(tempfile.gettempdir()), "export TMPDIR=/writable/folder")
    yield _writable("uv's cache", Path(cache), "export UV_CACHE_DIR=/writable/folder")


def _writable(name: str, folder: Path, remedy: str, *, needed: bool = False) -> Finding:
    try:
        with tempfile.NamedTemporaryFile(dir=_existing(folder)):
            pass
    except OSError as error:
        return Finding(name, "broken", f"{folder} cannot be written to: {error.strerror}", remedy, needed)
    return Finding(name, "good", f"{folder} can be written to")


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest above it that exists."""
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def authorities() -> Finding:
    """Read every CA bundle that the environment names."""
    named = [name for name in _AUTHORITIES if os.environ.get(name)]
    faults = []
    for name in named:
        try:
            ssl.create_default_context(cafile=os.environ[name])
        except (OSError, ssl.SSLError) as error:
            faults.append(f"{name}={os.environ[name]}: {error.strerror or error}")
    if faults:
        return Finding("CA bundle", "broken", "; ".join(faults), "name a bundle that exists, or unset the variable")
    return Finding("CA bundle", "good", f"named by {', '.join(named)}" if named else "the system's own")


def index(installer: Finding) -> Finding:
    """Ask the configured index, without a cache, for a small package. ``installer`` is the finding on uv."""
    if installer.status != "good":
        return Finding("package index", "absent", "not asked: that takes uv")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.in"
        wanted.write_text("iniconfig\n")
        try:
            uv("pip", "compile", "--quiet", "--no-cache", "--no-header", str(wanted))
        except InstallError as error:
            diagnosis = diagnose(str(error), "install")
            cause = f" ({diagnosis.cause})" if diagnosis else ""
            remedy = diagnosis.remedy if diagnosis else "look at UV_DEFAULT_INDEX and PIP_INDEX_URL"
            return Finding("package index", "broken", f"{last_line(str(error))}{cause}", remedy)
    return Finding("package index", "good", "answers")
