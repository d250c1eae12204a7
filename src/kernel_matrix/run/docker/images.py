"""A platform's image: built from its Dockerfile by an engine, and found again by the content of what went in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import docker

from kernel_matrix.config.model import Installer
from kernel_matrix.run.docker import bundle
from kernel_matrix.run.docker.build import Image, find, make
from kernel_matrix.run.docker.engine import answering
from kernel_matrix.run.docker.recipe import content_of, needs_shared_image, platform_recipe, shared_recipe
from kernel_matrix.run.docker.shared_image import make_shared

PYTHON = "/usr/bin/python3.11"  # in every image, for its environments


def python_of(lock: Path) -> str:
    """Return the interpreter, inside the image, of the environment that was made from ``lock``."""
    return f"/opt/kernel-matrix/{lock.stem}/bin/python"


def build(
    client: docker.DockerClient,
    root: Path,
    platform: str,
    dockerfile: Path,
    locks: Sequence[Path],
    *,
    installer: Installer,
    gpu: bool,
    say: Callable[[str], None],
    before: Callable[[], None] = lambda: None,
) -> Image:
    """Make the platform's image with an environment for each of ``locks``, or take the one made from the same content.

    ``gpu``: with the builds that the platform's GPUs need, instead of those for CPUs. ``before`` is called before
    anything is built, and what it raises stops that.

    Raises:
        InstallError: the engine's own words: the last lines of the step that failed.
        MachineError: the engine itself failed.
    """
    with answering(f"to give the image of {platform}"):
        if carried := bundle.find(root, platform, content_of(dockerfile, locks, installer, gpu=gpu)):
            if find(client, carried.id) is None:
                bundle.load(client, root, say)
            return Image(carried.reference, carried.id)
        shared = None
        if needs_shared_image(dockerfile):
            recipe = shared_recipe(client, root, dockerfile, locks, installer, gpu=gpu)
            shared = make_shared(client, recipe, say, before).reference
        return make(client, platform_recipe(client, root, platform, dockerfile, locks, shared), say, before)
