"""Checks of result files before they are read, and of their records. The machine that sent them is not trusted."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.store.record import Record

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}\.(?:xml|parquet|jsonl)")
# The figures that must be finite. An error may be infinite, and so may the limits that follow from it: a case with such
# a figure is judged, and its file is not refused.
FINITE = re.compile(
    r"time|repeats|repeats_differing|(?:time|artifact|canary|bench)\..*"
    r"|(?:.*\.)?(?:elements|nan|inf|unit|steps|largest|itemsize)"
)


class RefusedError(Exception):
    """A file is not taken. The text is a sentence without its full stop."""


@dataclass(frozen=True)
class Bounds:
    """Limits that honest results stay far below: the largest in this repository has 0.9 MB and 430 cases."""

    files: int = 2_000
    file_bytes: int = 64 * 2**20
    all_bytes: int = 512 * 2**20
    cases: int = 50_000  # in a file
    text: int = 256 * 2**10  # characters of an attribute or a text
    depth: int = 8
    properties: int = 4_000  # of a case: 25 for each output of each variant of its kernel
    outputs: int = 2_000_000  # rows of the tables of outputs and of samples of a job
    unpacked: int = 512 * 2**20  # bytes of a table, with every text as often as it occurs


# For results that are read one file after the other, into a database on the disk: each file has the same bounds.
STREAMED = Bounds(files=100_000, all_bytes=64 * 2**30)


@dataclass
class Together:
    """The number and the bytes of all files, or of all runs, that were taken so far."""

    number: int = 0
    size: int = 0

    def add(self, size: int, bounds: Bounds) -> None:
        """Add the bytes of the next.

        Raises:
            RefusedError: all together are too many or too large.
        """
        self.size += size
        if self.number >= bounds.files:
            raise RefusedError(f"there are more than {bounds.files} files")
        if self.size > bounds.all_bytes:
            raise RefusedError(f"all files together are larger than {bounds.all_bytes} bytes")
        self.number += 1


def find(folder: Path, paths: Iterable[Path], bounds: Bounds) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Return the files to read of those below a folder, and those that are not read, each with the reason."""
    good: list[Path] = []
    bad: list[tuple[Path, str]] = []
    together = Together()
    for path in paths:
        try:
            together.add(check_name(path, folder, bounds), bounds)
            good.append(path)
        except RefusedError as error:
            bad.append((path, str(error)))
    return good, bad


def check_name(path: Path, folder: Path, bounds: Bounds) -> int:
    """Return the size of a plain file with a plain name that is not behind a symbolic link.

    Raises:
        RefusedError: the path is something else, or the file is too large.
    """
    part = path
    while part != folder:
        if part.is_symlink():
            raise RefusedError("this is a symbolic link, or lies behind one")
        part = part.parent
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError("this is no plain file")
    if not _NAME.fullmatch(path.name):
        raise RefusedError("a result's name has only letters, digits and . _ + -")
    if status.st_size > bounds.file_bytes:
        raise RefusedError(f"it has {status.st_size} bytes, and {bounds.file_bytes} is the most")
    return status.st_size


def check_figures(records: Iterable[Record]) -> None:
    """Check that times, sizes and counts are finite. An error may be NaN or Inf: a kernel may write these.

    Raises:
        RefusedError: one of them is not, or a time is less than 0.
    """
    for record in records:
        if record.seconds < 0:
            raise RefusedError(f"the figure 'time' of {record.case[:150]!r} is {record.seconds}")
        if math.isfinite(record.seconds) and all(map(math.isfinite, record.metrics.values())):
            continue
        for name, value in (("time", record.seconds), *record.metrics.items()):
            if not math.isfinite(value) and FINITE.fullmatch(name):
                raise RefusedError(f"the figure {name[:60]!r} of {record.case[:150]!r} is {value}")


FIRST = "2020"  # no job began earlier: a clock that says so is wrong


def check_job(facts: Mapping[str, str]) -> None:
    """Check that a job began, and lasted, as a job can.

    Raises:
        RefusedError: its times cannot be.
    """
    if "" < (started := facts.get("started", "")) < FIRST:
        raise RefusedError(f"it began {started[:30]!r} by the clock of its machine, which is wrong")
    if facts.get("seconds", "").startswith("-"):
        raise RefusedError(f"its seconds are {facts['seconds'][:30]}")


@dataclass(frozen=True)
class Asked:
    """The cases that a job was asked for, its row, and whether the row's machine can have the hardware."""

    row: str
    cases: Collection[str]
    may_run: bool


def check_records(job: str, folder: str, records: Iterable[Record], asked: Mapping[str, Asked]) -> None:
    """Check that a job's file has only cases that the job was asked for, each once, and that its machine can do.

    A file in a folder called ``results-ROW`` must be of a job of that row.

    Raises:
        RefusedError: the file has something else.
    """
    if job not in asked:
        raise RefusedError("the plan has no job of this name")
    if folder.startswith("results-") and folder != f"results-{asked[job].row}":
        raise RefusedError(f"it came from another row than {asked[job].row}, whose job this is")
    read_ids: set[str] = set()
    for record in records:
        if record.case not in asked[job].cases:
            raise RefusedError(f"it speaks of {record.case[:150]!r}, which its job was not asked for")
        if record.case in read_ids:
            raise RefusedError(f"it speaks of {record.case[:150]!r} twice")
        if record.action == "run" and not asked[job].may_run:
            raise RefusedError(f"it says that {record.case[:150]!r} ran, on a machine without that hardware")
        read_ids.add(record.case)
