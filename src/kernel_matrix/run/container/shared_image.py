"""The image with the environments that the images of platforms share: a container makes them, and is committed.

The network's certificates, passwords and wheels are in a volume of that container, and no image gets a volume. A
Dockerfile would write the environments twice: in a stage that has these files, and in the image.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import docker
import docker.errors
from docker.types import Mount

from kernel_matrix.run.container.build import Printed, context, follow, lines_of, name_of
from kernel_matrix.run.container.engine import patience, remove
from kernel_matrix.run.container.recipe import Recipe
from kernel_matrix.run.executors import InstallError

STAGE = "python"  # of the Dockerfile: what the environments are made in
SCRIPT = "make-environments"  # next to the Dockerfile
_VOLUME = "/mnt"  # it is in every image, so a mount leaves no folder behind
_CONFIGURATION = {"Env": ["HOME=/tmp"], "User": "1000:1000", "Cmd": ["bash"]}


def make_shared(client: docker.DockerClient, recipe: Recipe, say: Callable[[str], None]) -> None:
    """Make the environments in a container, and commit it under the name of the recipe.

    Raises:
        InstallError: it cannot be made; the words of the engine or of the installer.
    """
    base = follow(client, recipe, say, target=STAGE)  # it has no name and no label
    with patience(client), _container(client, recipe, base) as container:
        files = {name.rpartition("/")[2]: content for name, content in {**recipe.files, **recipe.transient()}.items()}
        with context(files) as archive:
            container.put_archive(_VOLUME, archive)
        container.start()
        printed = Printed(recipe.name, say)
        pieces = container.logs(stream=True, follow=True)
        for line in lines_of(({"stream": piece.decode(errors="replace")} for piece in pieces), []):
            printed.take_in(line)
        if status := container.wait()["StatusCode"]:
            ended = f"it ended with status {status}"
            reason, folder = (printed.lines or [ended])[-1], recipe.dockerfile.rpartition("/")[0]
            raise InstallError("\n".join([*printed.lines, ended, f"{folder}/{SCRIPT}: {reason}"]))
        repository, _, tag = recipe.reference.partition(":")
        container.commit(repository, tag, conf={**_CONFIGURATION, "Labels": dict(recipe.labels)})


@contextmanager
def _container(client: docker.DockerClient, recipe: Recipe, image: str) -> Iterator[Any]:
    """Yield the container, which is removed at the end with its volume.

    It has no label of its owner, which the image would get too. It is known by its name, and one process of a user
    makes an image at one time: so one that is there was left by a process that died.
    """
    name = name_of(recipe)
    with contextlib.suppress(docker.errors.NotFound):
        remove(client.containers.get(name))
    variables = [f"KIND={recipe.arguments['KIND']}", *recipe.arguments["INSTALLER_VARIABLES"].split()]
    container = client.containers.create(
        image,
        ["sh", f"{_VOLUME}/{SCRIPT}", _VOLUME, *variables],
        name=name,
        mounts=[Mount(_VOLUME, None)],
        user="0",
    )
    try:
        yield container
    finally:
        remove(container)
