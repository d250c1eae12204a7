"""The recipe of an image: its files, its build arguments and its labels, and the hash that names it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import docker
import docker.errors

from kernel_matrix.base.git import commit
from kernel_matrix.config.file_readers import SHARED_IMAGE as SHARED
from kernel_matrix.config.locks import lock_file
from kernel_matrix.config.model import Installer, Matrix
from kernel_matrix.run.container import network
from kernel_matrix.run.environments.builds import chosen_build, is_among
from kernel_matrix.vendors.builds import CPU
from kernel_matrix.vendors.registry import vendor_named

PREFIX = "kernel-matrix"
_SHARES = "ARG TOOLCHAINS"  # is in a Dockerfile that is made from the shared image
_BASE = re.compile(r"^ARG (\w+)=(\S+)@(sha256:[0-9a-f]{64})$", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """The files, arguments and labels that an image is made from.

    ``transient`` returns files that are there while the image is made. They are not in it, and do not change its hash.
    """

    name: str
    dockerfile: str
    files: Mapping[str, bytes]
    arguments: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    transient: Callable[[], Mapping[str, bytes | Path]] = dict

    @property
    def content(self) -> str:
        """Return the hash of all that goes into the image."""
        content = hashlib.sha256()
        arguments = {name: value.encode() for name, value in self.arguments.items()}
        for kind, entries in (("file", self.files), ("argument", arguments)):
            for name, data in sorted(entries.items()):
                content.update(f"{kind} {name} {hashlib.sha256(data).hexdigest()}\n".encode())
        return content.hexdigest()[:12]

    @property
    def reference(self) -> str:
        """Return the name and the hash of the content, such as ``kernel-matrix/cuda:5f0c...``."""
        return f"{PREFIX}/{self.name}:{self.content}"


@dataclass(frozen=True)
class Source:
    """The repository's part of a platform's image: its Dockerfile, and a lock for each environment.

    ``kind``: the kind of builds in it.
    """

    root: Path
    platform: str
    dockerfile: Path
    locks: Sequence[Path]
    installer: Installer
    kind: str = CPU

    @property
    def content(self) -> str:
        """Return the hash of it; it is the same on every machine and every base."""
        files = _folder(self.root, self.dockerfile)
        if self.shares:
            files |= {**_folder(self.root, self._shared), **self._pins, "installer": self._installer_variables.encode()}
        return Recipe("", "", files, {}).content

    @property
    def shares(self) -> bool:
        """Return whether the image is made from the one with the environments."""
        return _SHARES in self.dockerfile.read_text(encoding="utf-8")

    def recipe(self, client: docker.DockerClient, shared: str | None) -> Recipe:
        """Return the recipe of the image, made from the image ``shared`` if it needs that."""
        name, files = _name(self.root, self.dockerfile), _folder(self.root, self.dockerfile)
        arguments = _bases(client, self.dockerfile) | ({"TOOLCHAINS": shared} if shared else {})
        labels = _labels(self.root, self.platform, self.locks)
        return Recipe(self.platform, name, files, arguments, labels)

    def shared_recipe(self, client: docker.DockerClient) -> Recipe:
        """Return the recipe of the image with the environments."""
        wheels, variables = network.wheels(self._pins.values(), self.kind), self._installer_variables
        if is_among(self.installer, wheels):
            variables = ""  # a wheel that comes along is the right build
        return Recipe(
            SHARED,
            _name(self.root, self._shared),
            {**_folder(self.root, self._shared), **self._pins},
            {**_bases(client, self._shared), "KIND": self.kind, "INSTALLER_VARIABLES": variables},
            _labels(self.root, SHARED, ()),
            lambda: network.site(wheels),
        )

    @property
    def _shared(self) -> Path:
        """The Dockerfile of the image that the platforms share."""
        return self.dockerfile.parents[1] / SHARED / "Dockerfile"

    @property
    def _pins(self) -> dict[str, bytes]:
        """The lock files, under the names that they have in the context."""
        return {_name(self.root, lock): lock.read_bytes() for lock in sorted(set(self.locks))}

    @property
    def _installer_variables(self) -> str:
        """The installer's variables (``NAME=VALUE NAME=VALUE``), by which it takes the builds of this kind."""
        texts = [lock.read_text(encoding="utf-8") for lock in self.locks]
        chosen = {item for text in texts for item in chosen_build(self.installer, text, self.kind).items()}
        return " ".join(f"{key}={value}" for key, value in sorted(chosen))


def source_of(matrix: Matrix, root: Path, platform: str, *, gpu: bool = False) -> Source | None:
    """Return what goes into a platform's image; None for a platform without a container."""
    section = matrix.platforms[platform]
    if section.container is None:
        return None
    kind = vendor_named(section.device).build if gpu else CPU
    files = dict.fromkeys(lock_file(root, matrix.lock_of(platform, one), kind) for one in section.by_toolchain)
    locks = [file for file in files if file.is_file()]  # a job whose lock is not there says so itself
    return Source(root, platform, root / section.container, locks, matrix.installer, kind)


def _name(root: Path, path: Path) -> str:
    """Return the name that a file has in the context: as in a build by hand, its path in the repository."""
    return os.path.relpath(path, root).replace("../", "")


def _folder(root: Path, dockerfile: Path) -> dict[str, bytes]:
    """Return the Dockerfile and the files next to it, under the names that they have in the context."""
    files = (path for path in sorted(dockerfile.parent.rglob("*")) if path.is_file())
    return {_name(root, path): path.read_bytes() for path in files}


def _bases(client: docker.DockerClient, dockerfile: Path) -> dict[str, str]:
    """Return the base images by argument: what the user names, what ci/base-images made here, or the pinned one."""
    bases = {}
    for argument, tag, digest in _BASE.findall(dockerfile.read_text(encoding="utf-8")):
        bases[argument] = os.environ.get(f"KERNEL_MATRIX_{argument}") or f"{tag}@{digest}"
        if bases[argument] == f"{tag}@{digest}":
            try:
                local = client.images.get(tag)
            except docker.errors.ImageNotFound:
                continue
            if "kernel-matrix.base" in (local.labels or {}):
                bases[argument] = str(local.id)
    return bases


def _labels(root: Path, name: str, locks: Sequence[Path]) -> dict[str, str]:
    """Return the labels of an image: its title, the commit, and the versions in its environments."""
    texts = {lock.stem: lock.read_text(encoding="utf-8") for lock in sorted(set(locks))}
    labels = {
        "org.opencontainers.image.title": f"{PREFIX}/{name}",
        "org.opencontainers.image.revision": commit(root),
    }
    if texts:
        labels["kernel-matrix.locks"] = hashlib.sha256("".join(texts.values()).encode()).hexdigest()
    for stem, text in texts.items():
        pins = re.findall(r"^[\w.-]+==[^\s;]+", text, re.MULTILINE)
        labels[f"kernel-matrix.versions.{stem}"] = " ".join(pins)
    return labels
