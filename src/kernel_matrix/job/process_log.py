"""The log of the kernel's process: everything that it prints. An error shows the end of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_TAIL = 60  # lines of a dead process's output that go into its case
_READ = 1 << 16  # bytes of the log's end in which these lines are looked for


class ProcessLog:
    """A file that processes print into, one after the other, and what was printed since the last mark in it."""

    def __init__(self, path: Path) -> None:
        """Take a path; its file need not be there yet."""
        self.path = path
        self._mark = 0

    def open(self) -> BinaryIO:
        """Open the file for a process that appends to it, and set the mark at its end."""
        log = self.path.open("ab")
        self._mark = log.tell()
        return log

    def set_mark(self) -> None:
        """Leave out what was printed until now."""
        self._mark = self.path.stat().st_size

    def tail(self) -> str:
        """Return the last lines since the mark."""
        with self.path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._mark, size - _READ))
            lines = log.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_TAIL:])
