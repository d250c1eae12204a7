"""Find the toolchains and platforms that changed files concern. Pure functions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.config.model import Matrix
from kernel_matrix.vendors.registry import vendor_names

# No job reads these files, nor those that ci.unread in matrix.yaml names. A file that no rule knows concerns
# everything.
_ONLY_READ_BY_PEOPLE = ("*.md", "docs/*", "LICENSE", ".gitignore")
_VENDOR_FILE = re.compile(r"(?:.+/)?kernel_matrix/vendors/(\w+)\.py")


@dataclass(frozen=True)
class Concerned:
    """The toolchains and platforms that changes concern, each with the first file that does, or the first part of it.

    ``entries`` are toolchains of one platform alone, as pairs of platform and toolchain. ``everything`` is the first
    file that concerns all of them; empty if there is none.
    """

    toolchains: Mapping[str, str] = field(default_factory=dict)
    platforms: Mapping[str, str] = field(default_factory=dict)
    everything: str = ""
    entries: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def file_for(self, platform: str, toolchain: str) -> str:
        """Return a changed file that concerns the toolchain on the platform; empty if there is none."""
        files = (
            self.toolchains.get(toolchain),
            self.platforms.get(platform),
            self.entries.get((platform, toolchain)),
        )
        return min((file for file in files if file), default=self.everything)

    def __or__(self, other: Concerned) -> Concerned:
        """Return what one of the two says; where both do, what this one says."""
        return Concerned(
            {**other.toolchains, **self.toolchains},
            {**other.platforms, **self.platforms},
            self.everything or other.everything,
            {**other.entries, **self.entries},
        )


def concerned(matrix: Matrix, paths: Iterable[str]) -> Concerned:
    """Return the toolchains and platforms that the files concern. Paths are relative to the folder of matrix.yaml."""
    toolchains: dict[str, str] = {}
    platforms: dict[str, str] = {}
    entries: dict[tuple[str, str], str] = {}
    everything = ""
    unread = (*_ONLY_READ_BY_PEOPLE, *matrix.ci.unread)
    for path in sorted(set(paths)):
        if path in matrix.package.rule_files or any(fnmatch.fnmatchcase(path, pattern) for pattern in unread):
            continue
        if of_toolchains := _toolchains_of(matrix, path):
            for name in of_toolchains:
                toolchains.setdefault(name, path)
        elif own := [entry for entry, lock in matrix.own_locks.items() if path in lock_files(lock)]:
            for entry in own:
                entries.setdefault(entry, path)
        elif (of_platforms := _platforms_of(matrix, path)) is not None:
            for name in of_platforms:
                platforms.setdefault(name, path)
        else:
            everything = everything or path
    return Concerned(toolchains, platforms, everything, entries)


def only_in_containers(matrix: Matrix, path: str) -> bool:
    """Return whether a file concerns only jobs that run in containers."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in matrix.ci.only_in_containers)


def lock_files(lock: str) -> tuple[str, str]:
    """Return a lock and the file that it was resolved from."""
    return lock, str(Path(lock).with_suffix(".in"))


def _toolchains_of(matrix: Matrix, path: str) -> list[str]:
    """Return the toolchains of the backend that the file belongs to, or those that have it as their lock."""
    folder = matrix.package.backends
    if folder and (match := re.fullmatch(rf"{re.escape(folder.rstrip('/'))}/([^/]+)/.+", path)):
        # A folder that belongs to no toolchain may be shared by all: it concerns everything.
        return [name for name, chain in matrix.toolchains.items() if match[1] in (chain.backend, *chain.uses)]
    return [name for name, toolchain in matrix.toolchains.items() if path in lock_files(toolchain.lock)]


def _platforms_of(matrix: Matrix, path: str) -> list[str] | None:
    """Return the platforms whose image or whose vendor the file makes; None for a file of another kind.

    There may be no platform yet for the file of a vendor.
    """
    if (match := _VENDOR_FILE.fullmatch(path)) and match[1] in vendor_names():
        return [name for name, platform in matrix.platforms.items() if platform.device == match[1]]
    images = [
        name
        for name, platform in matrix.platforms.items()
        if platform.container and path.startswith(f"{Path(platform.container).parent}/")
    ]
    return images or None
