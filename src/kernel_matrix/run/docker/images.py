"""A platform's image: built by an engine, found again by the content of what went in, and packed into a bundle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.git import commit
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.run.docker import bundle
from kernel_matrix.run.docker.build import Image, find, make
from kernel_matrix.run.docker.engine import answering, connect
from kernel_matrix.run.docker.recipe import Source, source_of
from kernel_matrix.run.docker.shared_image import make_shared
from kernel_matrix.run.executors import InstallError, UnavailableError

PYTHON = "/usr/bin/python3.11"  # in every image, for its environments


def python_of(lock: Path) -> str:
    """Return the interpreter, inside the image, of the environment that was made from ``lock``."""
    return f"/opt/kernel-matrix/{lock.stem}/bin/python"


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
        made = [(source, build(client, source, say)) for source in sources]
        yield client, [bundle.Carried(one.platform, one.content, image.reference, image.id) for one, image in made]
    except InstallError as error:
        raise UserError(with_cause(str(error), "build")) from error
    finally:
        client.close()
