"""The seven kinds of cache: what each is, and how a lane is run with it. A case owes the same bits in all of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from kernel_matrix.tools.caches import disks
from kernel_matrix.tools.caches.results import Ran


class Lane(Protocol):
    """A toolchain on a platform, whose caches are all in one folder."""

    @property
    def cache(self) -> Path:
        """The folder of the caches."""

    @property
    def kept(self) -> Path:
        """A copy of what the first run left in an empty cache."""

    def run(self, before: Sequence[str] = ()) -> Ran:
        """Run the cases; the words ``before`` stand before the command of the kernel's process."""

    def run_together(self) -> list[Ran]:
        """Run the cases in two jobs, whose kernels' processes begin at the same time."""

    def run_other_version(self) -> None:
        """Run the cases with another version of the toolchain.

        Raises:
            NotTriedError: there is none.
        """


def cold(lane: Lane) -> list[Ran]:
    """Begin with nothing."""
    fill(lane.cache)
    return [lane.run()]


def warm(lane: Lane) -> list[Ran]:
    """Begin with what a run left."""
    fill(lane.cache, lane.kept)
    return [lane.run()]


def shared(lane: Lane) -> list[Ran]:
    """Begin with nothing, in two processes."""
    fill(lane.cache)
    return lane.run_together()


def other_version(lane: Lane) -> list[Ran]:
    """Begin with what another version left."""
    fill(lane.cache)
    lane.run_other_version()
    return [lane.run()]


def cut_short(lane: Lane) -> list[Ran]:
    """Begin with half of each file that a run left."""
    fill(lane.cache, lane.kept)
    for file in files_below(lane.cache):
        os.truncate(file, file.stat().st_size // 2)
    return [lane.run()]


def read_only(lane: Lane) -> list[Ran]:
    """Begin with nothing, and then with what a run left; nothing can be written."""
    ran = []
    for began, source in (("with an empty cache", None), ("with a filled cache", lane.kept)):
        fill(lane.cache, source)
        ran.append(replace(lane.run(disks.read_only(lane.cache)), began=began))
    return ran


def full(lane: Lane) -> list[Ran]:
    """Begin with nothing, on a disk with room for half of what a run left."""
    fill(lane.cache)
    room = sum(file.stat().st_blocks * 512 for file in files_below(lane.kept)) // 2
    return [lane.run(disks.small(lane.cache, room))]


@dataclass(frozen=True)
class Kind:
    """One kind of cache. ``sees`` says what the cases met, for the page."""

    sees: str
    run: Callable[[Lane], list[Ran]]


COLD = "cold"
KINDS = {
    COLD: Kind("two runs, each with an empty cache", cold),
    "warm": Kind("a run with the cache that an earlier run left", warm),
    "shared": Kind("two processes that start together, with one empty cache", shared),
    "other-version": Kind("a run with the cache that another version of the toolchain left", other_version),
    "cut-short": Kind("a run with a cache in which every file has half of its bytes", cut_short),
    "read-only": Kind("a run with an empty cache and one with a filled cache, which cannot be written", read_only),
    "full": Kind("a run with an empty cache on a disk that has room for half of the files", full),
}


def fill(cache: Path, source: Path | None = None) -> None:
    """Empty a cache, and copy the files of another one into it."""
    shutil.rmtree(cache, ignore_errors=True)
    if source:
        shutil.copytree(source, cache, symlinks=True)
    cache.mkdir(parents=True, exist_ok=True)


def files_below(folder: Path) -> list[Path]:
    """Return the files of a cache."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
