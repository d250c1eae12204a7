"""Doctor's check of the Docker engine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kernel_matrix.run.container.engine import SOCKET, connect
from kernel_matrix.run.executors import UnavailableError
from kernel_matrix.vendors.finding import Finding

_START = "sudo apt-get install docker.io && sudo systemctl start docker"


def docker_engine() -> Finding:
    """Ask the Docker engine that jobs would run in."""
    try:
        engine = connect()
    except UnavailableError as reason:
        return _no_engine(os.environ.get("DOCKER_HOST") or SOCKET, str(reason))
    engine.client.close()
    return Finding("Docker", "good", f"an engine answers at {engine.address}, with {engine.cpus:g} CPUs")


def _no_engine(address: str, reason: str) -> Finding:
    """Return the finding for a machine that has no engine, or has one that cannot be used."""
    if not address.startswith("unix://"):
        return Finding("Docker", "absent", reason, "unset DOCKER_HOST, or name a socket of this machine")
    socket = Path(address.removeprefix("unix://"))
    try:
        socket.stat()
    except (FileNotFoundError, NotADirectoryError):
        client = "the client is here" if shutil.which("docker") else "no client is here"
        text = f"{client}, and there is no daemon at {socket}; the executor venv does without"
        return Finding("Docker", "absent", text, _START)
    except PermissionError:
        pass  # os.access below says the same of a socket that belongs to another user
    if not os.access(socket, os.R_OK | os.W_OK):
        return Finding("Docker", "broken", reason, "sudo usermod -aG docker $USER, and log in anew")
    return Finding("Docker", "broken", reason, _START)
