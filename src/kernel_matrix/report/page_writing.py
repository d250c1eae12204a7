"""Write the files ``cells/NUMBER``: in this process, or in a second one while this one goes on with the next cells."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.report.page_columns import Cases
from kernel_matrix.report.page_script import write_script

_MOST_WAITING = 2  # parts of the cases that the second process has not written yet: they are in memory


@dataclass(frozen=True)
class FileOfCells:
    """The file with a number: its cells as the members of a JSON object, and where their cases are in some columns."""

    number: int
    cells: bytes
    start: int
    end: int


def path_of(folder: Path, number: int) -> Path:
    """Return the file of cells with a number; ``folder`` is that of all data."""
    return folder / "cells" / f"{number}.js"


def write_files(folder: Path, jobs: Sequence[Mapping[str, str]], cases: Cases, files: Sequence[FileOfCells]) -> None:
    """Write files whose cases are in the same columns; ``jobs`` are those of all results."""
    for file in files:
        content = cases.written(file.start, file.end, jobs)
        write_script(path_of(folder, file.number), f"cells/{file.number}", b'{"cells":{%b},%b}' % (file.cells, content))


class Writer:
    """Write files in this process."""

    def write(self, folder: Path, jobs: Sequence[Mapping[str, str]], cases: Cases, file: FileOfCells) -> None:
        """Write a file with cells whose cases are in some columns."""
        write_files(folder, jobs, cases, [file])

    def end(self) -> None:
        """Wait until all files are written."""


@dataclass
class SecondProcess(Writer):
    """Hand the files to a second process, those with the same columns together."""

    pool: ProcessPoolExecutor
    _place: tuple[Path, Sequence[Mapping[str, str]], Cases] | None = None
    _files: list[FileOfCells] = field(default_factory=list)
    _waiting: list[Future[None]] = field(default_factory=list)

    def write(self, folder: Path, jobs: Sequence[Mapping[str, str]], cases: Cases, file: FileOfCells) -> None:
        """Hand over a file, at the latest with the first one of other columns.

        Raises:
            UserError: the process has ended.
            OSError: a file cannot be written.
        """
        if self._place and self._place[2] is not cases:
            self._send(_MOST_WAITING)
        self._place = folder, jobs, cases
        self._files.append(file)

    def end(self) -> None:
        """Wait until all files are written, or raise as above."""
        self._send(0)

    def _send(self, most_waiting: int) -> None:
        try:
            if self._place:
                self._waiting.append(self.pool.submit(write_files, *self._place, self._files))
                self._place, self._files = None, []
            while len(self._waiting) > most_waiting:
                self._waiting.pop(0).result()
        except BrokenProcessPool:
            raise UserError(
                "The process that writes the cases of the page has ended, perhaps because the memory was full. "
                "Make the report again."
            ) from None


@contextmanager
def second_process() -> Iterator[SecondProcess]:
    """Yield a writer whose process starts at once: it imports its modules while this one does other work."""
    # It is started anew, because a fork of a process that has threads may hang.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            pool.submit(_begin)
            yield SecondProcess(pool)
        finally:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Do nothing: to find this function, the process imports this module."""
