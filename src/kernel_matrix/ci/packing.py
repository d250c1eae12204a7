"""Make the images of platforms, and write them with the source into a bundle, or alone for the machines of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.git import commit
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.run.container import bundle, images
from kernel_matrix.run.container.engine import connect
from kernel_matrix.run.container.recipe import Source, source_of
from kernel_matrix.run.executors import InstallError, UnavailableError


def pack(
    matrix: Matrix, root: Path, platforms: Collection[str], wheels: Path, into: Path, say: Callable[[str], None]
) -> None:
    """Write the bundle of these platforms to ``into``; a platform without a container has no image in it.

    ``wheels`` is the folder with the wheels of the harness.

    Raises:
        UserError: there is no such platform, no Docker engine answers, or an image cannot be made.
    """
    try:
        with _images(matrix, root, platforms, say) as (client, carried):
            bundle.write(client, root, commit(root), carried, wheels, into, say)
    except UnavailableError as error:
        raise UserError(str(error)) from error


def pack_image(matrix: Matrix, root: Path, platform: str, into: Path, say: Callable[[str], None]) -> bool:
    """Write the image of a platform for the machines of the same run; return whether there is one.

    Where no engine answers there is none: the machines of the run decide for themselves what they do then.

    Raises:
        UserError: there is no such platform, or its image cannot be made.
    """
    try:
        with _images(matrix, root, [platform], say) as (client, carried):
            if carried:
                bundle.write_images(client, commit(root), carried, into, say)
            return bool(carried)
    except UnavailableError as error:
        say(f"no image was made: {error}")
        return False


@contextmanager
def _images(
    matrix: Matrix, root: Path, platforms: Collection[str], say: Callable[[str], None]
) -> Iterator[tuple[docker.DockerClient, list[bundle.Carried]]]:
    """Make the images of the platforms that have a container, and yield the engine with them.

    Raises:
        UserError: there is no such platform, or an image cannot be made.
        UnavailableError: no Docker engine answers.
    """
    for name in platforms:
        if name not in matrix.platforms:
            raise unknown("--platform", "platform", name, matrix.platforms)
    client = connect().client
    sources = [source for name in platforms if (source := source_of(matrix, root, name))]
    try:
        yield client, [_made(client, source, say) for source in sources]
    except InstallError as error:
        raise UserError(with_cause(str(error), "build")) from error
    finally:
        client.close()


def _made(client: docker.DockerClient, source: Source, say: Callable[[str], None]) -> bundle.Carried:
    """Make the image of a platform, or find it."""
    image = images.build(client, source, say)
    return bundle.Carried(source.platform, source.content, image.reference, image.id)
