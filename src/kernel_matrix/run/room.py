"""The room that a job's folder has and takes: a mount has no limit of its own, so the folder is measured."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.job import own_files

_NEEDED = 1 << 16  # bytes that must be free for a job to write its journal
_SECONDS = 1.0  # between two measurements
_PART_OF_THE_TIME = 20  # measuring takes at most one part of so many
_SMALLEST = 1 << 12  # bytes that an entry counts at least: a million empty files fill a disk, too


@dataclass
class Room:
    """Measure and clear what a job writes into its folder. A file that was deleted and is still open is not seen.

    ``kept`` are the names of the files there that the harness goes on with.
    """

    folder: Path
    most: float  # bytes
    kept: Collection[str] = ()
    next: float = 0.0

    def outgrown(self) -> bool:
        """Return whether the folder has more than it may; it is measured only if some time has gone by."""
        began = time.monotonic()
        if began < self.next:
            return False
        size = 0
        for entry in _entries(self.folder):
            with contextlib.suppress(OSError):  # the job has removed it
                size += max(_SMALLEST, 512 * entry.stat(follow_symlinks=False).st_blocks)
            if size > self.most:
                return True
        now = time.monotonic()
        self.next = now + max(_SECONDS, _PART_OF_THE_TIME * (now - began))
        return False

    def clear(self) -> None:
        """Remove what the job has written, so that the machine has its disk again, and other cases can run.

        Raises:
            OSError: something stays.
        """
        if self.folder.is_symlink():
            raise own_files.replaced(self.folder)
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in self.kept:
                path.unlink()

    def demand(self) -> None:
        """Check that there is room to write: a process that ended badly on a full disk could not say why.

        Raises:
            OSError: there is none.
        """
        file = self.folder / "room"
        try:
            own_files.write(file, b"\0" * _NEEDED)
        finally:
            own_files.remove(file)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield what is in the folder and its folders. A folder that the job has closed is opened, if it is the user's."""
    folders = [str(folder)]
    while folders:
        name = folders.pop()
        try:
            entries = os.scandir(name)
        except PermissionError:
            with contextlib.suppress(OSError):
                Path(name).chmod(0o700)
            continue  # the next measurement sees it
        except OSError:  # the job has removed it
            continue
        with entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
