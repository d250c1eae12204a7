"""The log of the kernel's process: everything that it prints. An error shows the end of it."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from kernel_matrix.job import own_files


class ProcessLog:
    """A file that processes print into, one after the other, and what was printed since the last mark in it.

    It is opened once, before a kernel runs: what a kernel puts in its place later is not looked at.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, which need not be there yet."""
        self.file = own_files.opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        weakref.finalize(self, os.close, self.file)
        self._mark = 0

    def set_mark(self) -> None:
        """Leave out what was printed until now."""
        self._mark = os.fstat(self.file).st_size

    def tail(self) -> str:
        """Return the last lines since the mark."""
        return own_files.last_lines(self.file, self._mark)
