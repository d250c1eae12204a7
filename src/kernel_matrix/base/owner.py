"""The label by which a container tells which process owns it. The scripts of a runner import this module alone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

OWNER = "kernel-matrix.owner"  # the label that says which process a container belongs to


def owner() -> str:
    """Return a label that only this process has: host, boot, namespace, process id and its start."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = Path("/proc/self/ns/pid").readlink()  # in which process ids are counted
    return f"{socket.gethostname()} {boot} {namespace} {os.getpid()} {_start_of(os.getpid())}"


def is_dead(label: str) -> bool:
    """Return whether the process of a label is certainly gone; one that is not visible here counts as alive."""
    host, boot, namespace, pid, start = label.split()
    own_host, own_boot, own_namespace, *_ = owner().split()
    if host != own_host or (boot == own_boot and namespace != own_namespace):
        return False
    return boot != own_boot or _start_of(int(pid)) != start


def _start_of(pid: int) -> str:
    """Return when the process started, in ticks since the boot; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return fields[18] if state not in "ZX" else ""
