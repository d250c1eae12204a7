"""The Docker engine of this machine: reach it, say in a sentence why not, and sweep up after runs that died."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests
import urllib3

from kernel_matrix.run.executors import MachineError, UnavailableError

OWNER = "kernel-matrix.owner"  # the label that says which process a container belongs to
SOCKET = "unix:///var/run/docker.sock"

ERRORS = (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError)


@dataclass(frozen=True)
class Engine:
    """An engine that answered."""

    client: docker.DockerClient
    address: str
    cpus: float
    folder: Path  # where it keeps its images


def connect() -> Engine:
    """The engine that DOCKER_HOST names, or the one of this machine.

    Raises:
        UnavailableError: there is none, this user may not reach it, or it cannot run jobs of this machine.
    """
    address = os.environ.get("DOCKER_HOST") or SOCKET
    if not address.startswith("unix://"):
        raise UnavailableError(f"the Docker engine at {address} is another machine's, where this one's folders are not")
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(address.removeprefix("unix://"))
    except PermissionError:
        text = f"this user may not reach the Docker engine at {address}: add it to the group 'docker'"
        raise UnavailableError(text) from None
    except OSError:
        raise UnavailableError(f"no Docker engine answers at {address}") from None
    try:
        client = docker.DockerClient(address)
        facts = client.info()
    except ERRORS as error:
        raise UnavailableError(
            f"the Docker engine at {address} does not answer as it should: {explained(error)}"
        ) from None
    if "name=rootless" in (facts.get("SecurityOptions") or ()):
        client.close()
        raise UnavailableError(f"the Docker engine at {address} is rootless, where a job could not write its results")
    return Engine(client, address, float(facts["NCPU"]), Path(facts["DockerRootDir"]))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it came from, and the errors that it carries as arguments."""
    while error is not None:
        yield error
        for part in error.args:
            if isinstance(part, BaseException):
                yield from _causes(part)
        error = error.__cause__ or error.__context__


def explained(error: BaseException) -> str:
    """The engine's own words, without those of the libraries around them."""
    causes = list(_causes(error))
    own = [cause.explanation for cause in causes if isinstance(cause, docker.errors.APIError) and cause.explanation]
    return str(own[0] if own else causes[-1]).strip()


@contextmanager
def answering(doing: str) -> Iterator[None]:
    """An engine that fails in this block is a fault of the machine.

    Raises:
        MachineError: it does; ``doing`` says at what.
    """
    try:
        yield
    except ERRORS as error:
        raise MachineError(f"the Docker engine failed {doing}: {explained(error)}") from error


def owner() -> str:
    """Name this process so that no other is ever taken for it: host, boot, namespace, process id and its start."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()} {boot} {_namespace()} {os.getpid()} {_started(os.getpid())}"


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _started(pid: int) -> str:
    """When the process started, in ticks since the boot; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return fields[18] if state not in "ZX" else ""


def is_dead(label: str) -> bool:
    """Whether the process of an owner's label is gone for certain; of what cannot be seen from here, nothing is."""
    host, boot, namespace, pid, started = label.split()
    own_host, own_boot, own_namespace, *_ = owner().split()
    if host != own_host or (boot == own_boot and namespace != own_namespace):
        return False
    return boot != own_boot or _started(int(pid)) != started


def sweep(client: docker.DockerClient) -> None:
    """Remove the containers that dead runs have left; never another's, nor those of a run that lives."""
    with answering("to list its containers"):
        left: list[Any] = client.containers.list(all=True, ignore_removed=True, filters={"label": OWNER})
    for container in left:
        if is_dead(container.labels[OWNER]):
            remove(container)


def remove(container: Any) -> None:
    """Remove a container, running or not, if it is still there."""
    try:
        container.remove(force=True, v=True)
    except docker.errors.NotFound:
        return
    except docker.errors.APIError as error:
        if error.status_code != 409:  # it is being removed already
            raise MachineError(f"the Docker engine failed to remove a container: {explained(error)}") from error
    except ERRORS as error:
        raise MachineError(f"the Docker engine failed to remove a container: {explained(error)}") from error
