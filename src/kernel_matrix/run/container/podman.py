"""Reach this user's podman, which needs no daemon: its socket, or a service that ends with this process."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from kernel_matrix.run.executors import UnavailableError

_SECONDS = 60.0  # in which a service has to answer
# The service ends with the process that holds the pipe, however that ends. A cluster's signals end it last.
_SERVICE = """trap "" TERM INT HUP
podman system service --time=0 "$0" & service=$!
exec 3<&0
{ read -r _ <&3; kill -s KILL $service; } &
wait $service
kill -s KILL $!"""


def user_socket() -> str:
    """Return the address of this user's service of podman; empty where none was set up."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    path = Path(folder, "podman", "podman.sock")
    return f"unix://{path}" if path.exists() else ""


def is_here() -> bool:
    """Return whether podman is installed."""
    return shutil.which("podman") is not None


@functools.cache
def service() -> str:
    """Start a service of podman that ends with this process, and return its address.

    Raises:
        UnavailableError: it does not start; its own words.
    """
    folder = Path(tempfile.mkdtemp(prefix="kernel-matrix-podman-"))
    path, log = folder / "socket", folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", _SERVICE, f"unix://{path}"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    atexit.register(_end, process, folder)
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as connection:
            if connection.connect_ex(str(path)) == 0:
                return f"unix://{path}"
        time.sleep(0.05)
    said = log.read_text(errors="replace").strip().splitlines()
    raise UnavailableError(f"the service of podman does not answer: {said[-1] if said else 'it said nothing'}")


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    process.communicate()
    shutil.rmtree(folder, ignore_errors=True)
