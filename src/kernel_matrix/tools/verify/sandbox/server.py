"""Start the fork server in the best sandbox that this machine grants, and ask it for processes."""

from __future__ import annotations

import array
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import kernel_matrix
from kernel_matrix.base.errors import UserError
from kernel_matrix.job.kernel_process import KernelProcessError
from kernel_matrix.tools.verify.inside.confine import HOME, LOOSE, OF_DEVICES
from kernel_matrix.tools.verify.sandbox.process import BoxProcess

LIMITS = {"memory": 6144, "cpu": 3600, "processes": 64, "disk": 768}  # MiB, seconds (a call has less), a number, MiB
KINDS = ("bubblewrap", "landlock")
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/alternatives")
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID")  # of root's server, which no candidate has
_READY = 300.0  # seconds that PyTorch may take to be imported on a busy machine
_PACKAGE = Path(kernel_matrix.__file__).resolve().parent


class Server:
    """The fork server; :meth:`process` gives a new sandboxed process of it."""

    def __init__(
        self, kind: str = "", *, device: str = "cpu", warm: bool = False, readable: Sequence[str] = ()
    ) -> None:
        """``kind`` is one of :data:`KINDS`; by default the first that works here. ``warm`` imports more at once.

        Candidates may read the folders ``readable`` too.

        Raises:
            UserError: none works, or the server does not start.
        """
        self.device, self._warm, self.loose, self._readable = device, warm, 0, list(readable)
        reasons = []
        for one in [kind] if kind else KINDS:
            try:
                self._start(one)
                self.held = self._tried()
                self.kind = one
                break
            except _NoSandboxError as error:
                reasons.append(f"{one}: {error}")
                self.close()
        else:
            raise UserError(
                f"there is no sandbox on this machine, and hostile code runs nowhere else. {'; '.join(reasons)}"
            )

    def _tried(self) -> dict[str, Any]:
        """Return what holds a process of this server, which is started for that alone, and begins with the card.

        A GPU's library may not begin in the closest sandbox: then as little as it needs is left open, and said.
        """
        errors = dict[str, int]()  # with how loose the sandbox was that gave it first
        for loose in range(1 + (max(LOOSE) if self.device != "cpu" else 0)):
            self.loose = loose
            try:
                with self.process() as process:
                    return process.held
            except KernelProcessError as failed:
                errors.setdefault(" ".join(failed.text.split())[:300], loose)
            except _NoSandboxError as failed:
                errors.setdefault(str(failed), loose)
        told = "; ".join(f"{error} (with {LOOSE[n]} left open)" if n else error for error, n in errors.items())
        raise _NoSandboxError(told if self.device == "cpu" else f"the card does not begin in it: {told}")

    def process(self, limits: Mapping[str, int] | None = None) -> BoxProcess:
        """Return a new sandboxed process, in which the card has begun: what begins later would be a change.

        Raises:
            KernelProcessError: the card does not begin in it.
        """
        mine, theirs = socket.socketpair()
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        reading, writing = os.pipe()
        descriptors = array.array("i", [theirs.fileno(), writing])
        try:
            message = json.dumps({**LIMITS, "loose": self.loose, **(limits or {})}).encode()
            self._socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        except OSError as error:
            raise _NoSandboxError(f"its server has ended ({error.strerror})") from None
        finally:
            theirs.close()
            os.close(writing)
        process = BoxProcess(mine, reading, (limits or LIMITS).get("processes", LIMITS["processes"]))
        if not process.held:
            raise _NoSandboxError(str(process.end().get("fatal", "a process in it ended at once")))
        if self.device != "cpu":
            try:
                process.call("kernel_matrix.tools.verify.inside.candidate:begin", {}, {"device": self.device})
            except KernelProcessError:
                process.end()
                raise
        return process

    @property
    def description(self) -> dict[str, Any]:
        """The sandbox in words, for the verdict."""
        missing = [] if self.kind == "bubblewrap" else ["namespaces: a candidate sees that other processes exist"]
        missing += [text for level, text in LOOSE.items() if level <= self.loose]
        if not self.held.get("proc", True):
            missing.append("a /proc of its own: it sees which other candidates run")
        if not self.held.get("processes"):
            missing.append("a user of its own: the number of its processes is counted, and not refused by Linux")
        return {"kind": self.kind, "missing": missing}

    def close(self) -> None:
        """End the server and all processes of it."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _start(self, kind: str) -> None:
        bwrap = shutil.which("bwrap")
        if kind == "bubblewrap" and bwrap is None:
            raise _NoSandboxError("there is no bwrap (Debian: bubblewrap)")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        readable, devices = [*_readable(), *self._readable], _devices(self.device)
        alone = kind != "bubblewrap"
        settings = {
            "alone": alone,
            "drops": not alone or _is_readable_by_all(),
            "devices": devices,
            "readable": [*readable, *(OF_DEVICES if devices else [])],
            "modules": ["triton"],
            "warm": self._warm,
        }
        bytecode = ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
        program = [sys.executable, *bytecode, "-B", "-I", "-c", _PROGRAM, json.dumps(settings)]
        command = program if alone else [*_bubblewrap(str(bwrap), readable, devices), "--", *program]
        self._process = subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            env=_environment(self.device),
        )
        theirs.close()
        self._socket.settimeout(_READY)
        try:
            self.versions = json.loads(self._socket.recv(4096) or b"null")
        except (OSError, ValueError):
            self.versions = None
        if self.versions is None:
            self._process.kill()
            lines = self._process.communicate()[1].decode(errors="replace").strip().splitlines()
            raise _NoSandboxError(lines[-1] if lines else "its server did not start")


class _NoSandboxError(Exception):
    """A kind of sandbox does not work on this machine."""


# A program text, because the harness's package is bound at a place of its own, and nothing else of its folder.
_PROGRAM = f"""import sys
sys.path.append({str(_PACKAGE.parent)!r})
from kernel_matrix.tools.verify.inside.server import main
main()"""


def _readable() -> list[str]:
    """Return what a candidate may read: the system's programs and libraries, this Python, and the harness's package."""
    python = [sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix)]
    packages = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    compilers = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    compilers += map(str, Path("/opt").glob("rocm*"))
    paths = [*_SYSTEM, *python, *packages, *compilers, str(_PACKAGE)]
    if sys.pycache_prefix:  # of these alone: a task's module may have its bytecode there too
        paths += [f"{sys.pycache_prefix}{one}" for one in (*python, *packages, str(_PACKAGE))]
    return [path for path in dict.fromkeys(paths) if Path(path).exists()]


def _is_readable_by_all() -> bool:
    """Return whether another user can read this Python and the harness: only then can root become nobody."""

    def open_way(path: Path) -> bool:
        return all(one.stat().st_mode & stat.S_IXOTH for one in (path, *path.parents))

    with suppress(OSError):
        return all(open_way(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix, _PACKAGE))
    return False


def _devices(device: str) -> list[str]:
    """Return the nodes of a GPU."""
    nodes = [*Path("/dev").glob("nvidia*"), Path("/dev/kfd"), Path("/dev/dri")]
    return [] if device == "cpu" else [str(one) for one in nodes if one.exists()]


def _environment(device: str) -> dict[str, str]:
    kept = ("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "USER": "candidate",
        "LOGNAME": "candidate",
        "HOME": HOME,
        "TMPDIR": HOME,
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "1",
        **({"TRITON_INTERPRET": "1"} if device == "cpu" else {}),
    }


def _bubblewrap(bwrap: str, readable: Sequence[str], devices: Sequence[str]) -> list[str]:
    """Return the command that runs a program with a read-only file system, no network and processes of its own.

    Root needs no namespace of users for that.
    """
    root = os.getuid() == 0
    user = ["--cap-drop", "ALL", *(word for one in _CAPABILITIES for word in ("--cap-add", one))]
    command = [bwrap, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    command += ["--unshare-uts", "--unshare-cgroup-try", *(user if root else ["--unshare-user"])]
    above = {str(one) for path in readable for one in Path(path).parents if str(one) != "/"}
    above = {one for one in above if not any(Path(one).is_relative_to(path) for path in readable)}
    for path in sorted(above):  # bubblewrap would make folders that root alone may enter
        command += ["--perms", "0755", "--dir", path]
    for path in [one for one in readable if not any(other in map(str, Path(one).parents) for other in readable)]:
        link = Path(path).is_symlink()
        command += ["--symlink", str(Path(path).readlink()), path] if link else ["--ro-bind", path, path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for path in devices:
        command += ["--dev-bind", path, path]
    # The server alone writes into this HOME while it imports: each candidate has one of its own mounted over it.
    return [*command, "--tmpfs", HOME, "--dir", "/tmp", "--chdir", "/", "--remount-ro", "/"]  # noqa: S108
