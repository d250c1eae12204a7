"""Make the images of platforms, and write them with the source into a bundle."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.git import commit
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.run.docker import bundle, images
from kernel_matrix.run.docker.engine import connect
from kernel_matrix.run.docker.recipe import content_of
from kernel_matrix.run.executors import InstallError, UnavailableError


def pack(
    matrix: Matrix,
    root: Path,
    platforms: Collection[str],
    wheels: Path,
    into: Path,
    say: Callable[[str], None],
) -> None:
    """Write the bundle of these platforms to ``into``; a platform without a container has no image in it.

    ``wheels`` is the folder with the wheels of the harness.

    Raises:
        UserError: there is no such platform, no Docker engine answers, or an image cannot be made.
    """
    for name in platforms:
        if name not in matrix.platforms:
            raise unknown("--platform", "platform", name, matrix.platforms)
    try:
        client = connect().client
        carried = []
        for name in platforms:
            platform = matrix.platforms[name]
            if platform.container is None:
                continue
            locks = [root / matrix.lock_of(name, entry.toolchain) for entry in platform.entries]
            dockerfile = root / platform.container
            image = images.build(client, root, name, dockerfile, locks, installer=matrix.installer, gpu=False, say=say)
            content = content_of(dockerfile, locks, matrix.installer, gpu=False)
            carried.append(bundle.Carried(name, content, image.reference, image.id))
        bundle.write(client, root, commit(root), carried, wheels, into, say)
    except InstallError as error:
        raise UserError(with_cause(str(error), "build")) from error
    except UnavailableError as error:
        raise UserError(str(error)) from error
