"""Reach the Docker engine of this machine, or say in a sentence why that is impossible; remove its containers."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests
import urllib3

from kernel_matrix.base.owner import OWNER, is_dead
from kernel_matrix.run.container import podman
from kernel_matrix.run.executors import MachineError, UnavailableError

SOCKET = "unix:///var/run/docker.sock"
SILENT_SECONDS = 3600  # an engine that says nothing for so long is not waited for

ERRORS = (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError)


@dataclass(frozen=True)
class Engine:
    """An engine that answered."""

    client: docker.DockerClient
    address: str
    cpus: float
    folder: Path  # where it keeps its images
    rootless: bool = False  # root of its containers is this user, and no other user of them is


def connect(*, start: bool = False) -> Engine:
    """Return the engine that DOCKER_HOST names, or the one of this machine: Docker's, or this user's podman.

    ``start``: where none answers, start a service of podman for the time of this process.

    Raises:
        UnavailableError: there is none, this user may not reach it, or it cannot run jobs of this machine.
    """
    address = os.environ.get("DOCKER_HOST") or _own_address(start=start)
    if not address.startswith("unix://"):
        raise UnavailableError(f"the Docker engine at {address} is another machine's, where this one's folders are not")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address.removeprefix("unix://"))
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
    if (rootless := _is_rootless(facts)) and os.getuid() == 0:
        client.close()
        raise UnavailableError(f"the Docker engine at {address} is another user's, who could not write root's results")
    return Engine(client, address, float(facts["NCPU"]), Path(facts["DockerRootDir"]), rootless)


def _own_address(*, start: bool) -> str:
    """Return the address of Docker's engine if this user may reach it, and else of this user's podman."""
    if os.access(SOCKET.removeprefix("unix://"), os.R_OK | os.W_OK):
        return SOCKET
    return podman.user_socket() or (podman.service() if start and podman.is_here() else SOCKET)


def _is_rootless(facts: Mapping[str, Any]) -> bool:
    """Return whether an engine has a namespace of users, in which its own user is root: as podman says or Docker."""
    return bool(facts.get("Rootless")) or "name=rootless" in (facts.get("SecurityOptions") or ())


def address(*, start: bool = False) -> str:
    """Return the address at which an engine answers.

    Raises:
        UnavailableError: as :func:`connect`.
    """
    engine = connect(start=start)
    engine.client.close()
    return engine.address


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, what it came from, and the errors that it carries as arguments."""
    while error is not None:
        yield error
        for part in error.args:
            if isinstance(part, BaseException):
                yield from _causes(part)
        error = error.__cause__ or error.__context__


def explained(error: BaseException) -> str:
    """Return the engine's own words, without the words that libraries put around them."""
    causes = list(_causes(error))
    messages = [
        cause.explanation for cause in causes if isinstance(cause, docker.errors.APIError) and cause.explanation
    ]
    return str(messages[0] if messages else causes[-1]).strip()


@contextmanager
def patience(client: docker.DockerClient) -> Iterator[None]:
    """Give the engine more time to answer in this block: to load or commit some GB takes longer than the client waits.

    The SDK has no such option for one request. Requests of other threads get the same time meanwhile.
    """
    usual, client.api.timeout = client.api.timeout, SILENT_SECONDS
    try:
        yield
    finally:
        client.api.timeout = usual


@contextmanager
def answering(doing: str) -> Iterator[None]:
    """Turn an error of the engine in this block into one of the machine.

    Raises:
        MachineError: the engine failed; ``doing`` says at what, such as "to start a container".
    """
    try:
        yield
    except ERRORS as error:
        raise MachineError(f"the Docker engine failed {doing}: {explained(error)}") from error


def sweep(client: docker.DockerClient) -> None:
    """Remove the containers that dead runs have left; containers of other programs and of living runs stay."""
    with answering("to list its containers"):
        containers: list[Any] = client.containers.list(all=True, ignore_removed=True, filters={"label": OWNER})
    for container in containers:
        if is_dead(container.labels[OWNER]):
            remove(container)


def remove(container: Any) -> None:
    """Remove a container, running or not, if it is still there.

    Raises:
        MachineError: the engine does not remove it.
    """
    try:
        container.remove(force=True, v=True)
    except docker.errors.NotFound:
        return
    except ERRORS as error:
        if isinstance(error, docker.errors.APIError) and error.status_code == 409:  # it is being removed already
            return
        raise MachineError(f"the Docker engine failed to remove a container: {explained(error)}") from error
