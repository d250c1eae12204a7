"""Look at this machine, or from inside a platform's image: what is here, what is not, and what to do about it."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from kernel_matrix.config.model import Matrix, Platform
from kernel_matrix.diagnosis import diagnose
from kernel_matrix.lab import probing
from kernel_matrix.run.docker.images import python_of
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError, MachineError
from kernel_matrix.vendors.machine import Machine

PLATFORM = "KERNEL_MATRIX_PLATFORM"  # by this variable a platform's image says whose it is
Status = Literal["good", "absent", "broken"]  # absent costs something that the rest can do without; broken is a fault

_GIB = 1 << 30
_ROOM = 12 * _GIB  # the environments of all locks, uv's cache and the compilers' caches
_TIMEOUT = 60.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; ``needed`` is what no platform does without."""

    what: str
    status: Status
    said: str
    remedy: str = ""
    needed: bool = False


def examine(matrix: Matrix, root: Path, build: Path, machine: Machine) -> list[Finding]:
    """Look at everything; nothing is changed, and what is written is deleted again.

    In a platform's image that is what the image is for: its environments are made, and nothing is fetched there.
    """
    name = os.environ.get(PLATFORM, "")
    if not name:
        return [
            _python(),
            _installer(),
            *_devices(machine),
            _cxx(),
            _nvcc(),
            _hipcc(),
            _nvidia_driver(machine),
            _amd_driver(machine),
            _docker(),
            _room(build),
            *(_writable(what, folder) for what, folder in _folders(build).items()),
            _authorities(),
            _index(),
        ]
    platform = matrix.platforms.get(name)
    if platform is None:
        said = f"{PLATFORM}={name}, and matrix.yaml has no such platform"
        remedy = f"unset {PLATFORM}, or take an image of this matrix.yaml"
        return [_python(), Finding("image", "broken", said, remedy, needed=True)]
    locks = dict.fromkeys(root / matrix.toolchains[lane.toolchain].lock for lane in platform.entries)
    return [
        _python(),
        Finding("image", "good", f"that of {name}; all that its jobs need is in it"),
        *(_environment(lock, name) for lock in locks),
        *_devices(machine),
        _cxx(),
        *_gpu_of(platform, machine),
        *(_writable(what, folder) for what, folder in _own_folders().items()),
    ]


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    said = f"{version} at {sys.executable}"
    if (3, 11) <= sys.version_info < (3, 14):
        return Finding("Python", "good", said)
    return Finding("Python", "broken", f"{said}; 3.11 to 3.13 is needed", "PYTHON=python3.12 ci/nox ...", needed=True)


def _installer() -> Finding:
    try:
        return Finding("uv", "good", uv("--version").strip())
    except InstallError as error:
        return Finding("uv", "broken", str(error).splitlines()[0], "start through ci/nox, which brings it", needed=True)


def _environment(lock: Path, platform: str) -> Finding:
    """The image's environment of this lock starts, and has every package in the version that the lock names."""
    what, python = f"environment {lock.stem}", Path(python_of(lock))
    remedy = f"build the image anew, outside: ci/nox -s test-{platform}"
    if not python.exists():
        return Finding(what, "broken", f"{python} is not in this image", remedy, needed=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            found = probing.examine(LocalInterpreter(python), Path(scratch)).versions
    except (InstallError, MachineError) as error:
        return Finding(what, "broken", f"{python} does not run: {_last(str(error))}", remedy, needed=True)
    has = {canonicalize_name(name): Version(version).public for name, version in found.items()}
    pins = [Requirement(line) for line in lock.read_text(encoding="utf-8").splitlines() if re.match(r"\w", line)]
    other = [
        f"{pin} (it has {has.get(canonicalize_name(pin.name), 'none')})"
        for pin in pins
        if (pin.marker is None or pin.marker.evaluate())
        and not pin.specifier.contains(has.get(canonicalize_name(pin.name), "0"), prereleases=True)
    ]
    if other:
        return Finding(what, "broken", f"not what {lock.name} names: {', '.join(other)}", remedy, needed=True)
    return Finding(what, "good", f"{len(pins)} packages, as {lock.name} names them")


def _devices(machine: Machine) -> list[Finding]:
    return [Finding(f"{d.vendor} device", "good", f"{d.name}: {', '.join(d.targets)}") for d in machine.devices]


def _cxx() -> Finding:
    compiler = os.environ.get("CXX") or "g++"
    remedy = "sudo apt-get install g++"
    path = shutil.which(compiler)
    if path is None:
        return Finding(
            "g++", "broken", f"{compiler} is not on PATH: TVM, TileLang and Inductor cannot make CPU code", remedy
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "main.cc"
        source.write_text("#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n")
        done = _run([path, "-o", f"{folder}/main", str(source)])
    if done is None or done.returncode:
        said = _last(done.stderr) if done else "no answer"
        return Finding("g++", "broken", f"{path} does not compile a small program: {said}", remedy)
    return Finding("g++", "good", _first_line([path, "--version"]))


def _nvcc() -> Finding:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    path = shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")
    if path is None:
        said = (
            "none on PATH nor in CUDA_HOME; the locks of TileLang and TVM bring their own, so cuda cells still compile"
        )
        return Finding("nvcc", "absent", said, "install the CUDA toolkit, or set CUDA_HOME, to use another one")
    done = _run([path, "--version"])
    if done is None or done.returncode:
        return Finding("nvcc", "broken", f"{path} does not start: {_last(done.stderr) if done else 'no answer'}",
                       "reinstall the CUDA toolkit, or take its folder from PATH")  # fmt: skip
    release = next((line.strip() for line in done.stdout.splitlines() if "release" in line), "")
    return Finding("nvcc", "good", f"{path}: {release}")


def _hipcc() -> Finding:
    home = os.environ.get("ROCM_PATH") or "/opt/rocm"
    path = shutil.which("hipcc") or shutil.which("hipcc", path=f"{home}/bin")
    if path is None:
        said = "none on PATH nor in ROCM_PATH: TileLang's HIP source is not compiled here"
        remedy = "install ROCm 7 (Debian: sudo apt-get install hipcc, from forky on), or use its container"
        return Finding("hipcc", "absent", said, remedy)
    return Finding("hipcc", "good", f"{path}: {_first_line([path, '--version'])}")


def _gpu_of(platform: Platform, machine: Machine) -> list[Finding]:
    """The compiler and the driver for the GPUs of an image's platform; a container has those GPUs that it is given."""
    if platform.device == "nvidia":
        compiler, driver, give = _nvcc(), _nvidia_driver(machine), "start the container with --gpus all"
    elif platform.device == "amd":
        compiler, driver = _hipcc(), _amd_driver(machine)
        give = "start the container with --device /dev/kfd --device /dev/dri, and --group-add the groups of both"
    else:
        return []
    return [compiler, replace(driver, remedy=give) if driver.status == "broken" else driver]


def _nvidia_driver(machine: Machine) -> Finding:
    drivers = {device.driver for device in machine.devices if device.vendor == "nvidia"}
    if drivers:
        return Finding("NVIDIA driver", "good", ", ".join(sorted(drivers)))
    if _pci_display("0x10de"):
        said = "an NVIDIA GPU is on the PCI bus, and nvidia-smi does not show it"
        remedy = "install the driver (Debian: sudo apt-get install nvidia-driver), then look at nvidia-smi"
        return Finding("NVIDIA driver", "broken", said, remedy)
    return Finding("NVIDIA driver", "absent", "no NVIDIA GPU is here", "")


def _amd_driver(machine: Machine) -> Finding:
    if machine.has("amd"):
        if os.access("/dev/kfd", os.R_OK | os.W_OK):
            return Finding("AMD driver", "good", "amdgpu, /dev/kfd")
        return Finding("AMD driver", "broken", "/dev/kfd cannot be opened by this user",
                       "sudo usermod -aG render,video $USER, and log in anew")  # fmt: skip
    if _pci_display("0x1002"):
        return Finding("AMD driver", "broken", "an AMD GPU is on the PCI bus, and amdgpu offers nothing to compute on",
                       "sudo modprobe amdgpu")  # fmt: skip
    return Finding("AMD driver", "absent", "no AMD GPU is here", "")


def _pci_display(vendor: str, devices: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether a display or 3D controller, or a processing accelerator, of the vendor is on the PCI bus."""
    for device in devices.glob("*"):
        try:
            kind = (device / "class").read_text().strip()
            if (device / "vendor").read_text().strip() == vendor and kind[:4] in ("0x03", "0x12"):
                return True
        except OSError:
            continue
    return False


def _docker() -> Finding:
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not address.startswith("unix://"):
        return Finding("Docker", "absent", f"DOCKER_HOST is {address}; only a local socket is looked at", "docker info")
    path = address.removeprefix("unix://")
    start = "sudo apt-get install docker.io && sudo systemctl start docker"
    if not Path(path).exists():
        program = "the client is here, and" if shutil.which("docker") else "no client is here, and"
        return Finding(
            "Docker", "absent", f"{program} there is no daemon at {path}; the executor venv does without", start
        )
    try:
        version = _ask_unix(path, "/version")
    except PermissionError:
        return Finding(
            "Docker", "broken", f"{path} belongs to another user", "sudo usermod -aG docker $USER, and log in anew"
        )
    except OSError as error:
        return Finding("Docker", "broken", f"nobody answers at {path}: {error.strerror or error}", start)
    return Finding("Docker", "good", f"a daemon answers at {path}: {version[:60]}")


def _ask_unix(path: str, what: str) -> str:
    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(10)
            self.sock.connect(path)

    connection = Connection("localhost", timeout=10)
    try:
        connection.request("GET", what)
        return connection.getresponse().read().decode("utf-8", errors="replace")
    finally:
        connection.close()


def _room(build: Path) -> Finding:
    folder = next(parent for parent in (build, *build.parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    said = f"{free / _GIB:.0f} GiB free at {folder}"
    if free < _ROOM:
        remedy = "uv cache prune; rm -r build/envs; or kernel-matrix --build /larger/disk"
        return Finding("disk", "broken", f"{said}; all environments together want {_ROOM // _GIB}", remedy)
    return Finding("disk", "good", said)


def _folders(build: Path) -> dict[str, Path]:
    cache = os.environ.get("UV_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return {"build folder": build, **_own_folders(), "uv's cache": Path(cache)}


def _own_folders() -> dict[str, Path]:
    """Where compilers write."""
    return {"home": Path.home(), "temporary folder": Path(tempfile.gettempdir())}


def _writable(name: str, folder: Path) -> Finding:
    remedies = {
        "build folder": "kernel-matrix --build /writable/folder",
        "home": "export HOME=/writable/folder (TileLang and TVM keep caches below it)",
        "uv's cache": "export UV_CACHE_DIR=/writable/folder",
        "temporary folder": "export TMPDIR=/writable/folder",
    }
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=existing):
            pass
    except OSError as error:
        said = f"{folder} cannot be written to: {error.strerror}"
        return Finding(name, "broken", said, remedies[name], needed=name == "build folder")
    return Finding(name, "good", f"{folder} can be written to")


def _authorities() -> Finding:
    """Every CA bundle that the environment names must be one."""
    faults = []
    named = [
        name for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if os.environ.get(name)
    ]
    for name in named:
        try:
            ssl.create_default_context(cafile=os.environ[name])
        except (OSError, ssl.SSLError) as error:
            faults.append(f"{name}={os.environ[name]}: {error.strerror or error}")
    if faults:
        return Finding("CA bundle", "broken", "; ".join(faults), "name a bundle that exists, or unset the variable")
    return Finding("CA bundle", "good", f"named by {', '.join(named)}" if named else "the system's own")


def _index() -> Finding:
    """Ask the configured index for a small package, past every cache."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.in"
        wanted.write_text("iniconfig\n")
        try:
            uv("pip", "compile", "--quiet", "--no-cache", "--no-header", str(wanted))
        except InstallError as error:
            if _installer().status == "broken":
                return Finding("package index", "absent", "not asked: that takes uv")
            found = diagnose(str(error), "install")
            said = str(error).strip().splitlines()
            cause = f" ({found.cause})" if found else ""
            return Finding("package index", "broken", f"{said[-1].strip()}{cause}",
                           found.remedy if found else "look at UV_DEFAULT_INDEX and PIP_INDEX_URL")  # fmt: skip
    return Finding("package index", "good", "answers")


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None


def _first_line(command: list[str]) -> str:
    done = _run(command)
    lines = done.stdout.splitlines() if done else []
    return lines[0].strip() if lines else "no answer"


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
