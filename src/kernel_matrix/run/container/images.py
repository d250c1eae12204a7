"""A platform's image: built from its Dockerfile by an engine, and found again by the content of what went in."""

from __future__ import annotations

from collections.abc import Callable

import docker

from kernel_matrix.run.container import bundle
from kernel_matrix.run.container.build import Image, find, make
from kernel_matrix.run.container.engine import answering
from kernel_matrix.run.container.recipe import Source
from kernel_matrix.run.container.shared_image import make_shared


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
