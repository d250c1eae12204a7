"""A platform's image: built from its Dockerfile by an engine, and found again by the content of what went in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import docker
import docker.errors
from docker.types import Mount

from kernel_matrix.run.container import bundle
from kernel_matrix.run.container.build import Image, Printed, context, find, follow, lines_of, make, name_of
from kernel_matrix.run.container.engine import answering, patience, remove
from kernel_matrix.run.container.recipe import Recipe, Source
from kernel_matrix.run.executors import InstallError


def build(
    client: docker.DockerClient,
    source: Source,
    say: Callable[[str], None],
    before: Callable[[], None] = lambda: None,
) -> Image:
    """Make the image, or take the one made from the same content.

    ``before`` is called before anything is built, and what it raises stops that.

    Raises:
        InstallError: the engine's own words: the last lines of the step that failed.
        MachineError: the engine itself failed.
    """
    with answering(f"to give the image of {source.platform}"):
        if carried := bundle.find(source.root, source.platform, source.content):
            if find(client, carried.id) is None:
                bundle.load(client, source.root, say)
            return Image(carried.reference, carried.id)
        shared = None
        if source.shares:
            shared = make(client, source.shared_recipe(client), say, before, make_shared).reference
        return make(client, source.recipe(client, shared), say, before)


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
