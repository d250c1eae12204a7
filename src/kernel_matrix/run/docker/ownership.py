"""Remove containers, and those that dead runs have left."""

from __future__ import annotations

from typing import Any

import docker
import docker.errors

from kernel_matrix.base.owner import OWNER, is_dead
from kernel_matrix.run.docker.engine import ERRORS, answering, explained
from kernel_matrix.run.executors import MachineError


def sweep(client: docker.DockerClient) -> None:
    """Remove the containers that dead runs have left; those of other programs and of living runs stay."""
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
