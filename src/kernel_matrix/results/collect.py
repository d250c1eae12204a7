"""Result folders -> Records: read all JUnit XML below them, each with the samples beside it, and all tables.

Every file that is broken or refused is named, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.results import junit, result_files, samples, validation
from kernel_matrix.results.duplicates import Unique
from kernel_matrix.results.foreign import foreign_records, printable
from kernel_matrix.results.junit import BrokenResultError
from kernel_matrix.results.record import Record
from kernel_matrix.results.result_files import NOT_WHOLE
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import Asked, Bounds, RefusedError


@dataclass(frozen=True)
class Collected:
    """The files that were taken, their records, and one sentence for each file that was not taken.

    Of tables ``files`` has that of the jobs. A job that is there twice counts once, so a file without another job is
    not among ``files``; ``paths`` are all files of results that lie in the folders, whether or not they were taken.
    ``refused`` has the reasons of files that were not taken by job, for the cases that are missing because of it.
    ``foreign`` has the records that another tool has written, by file.
    """

    files: tuple[Path, ...]
    records: tuple[Record, ...]
    broken: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    foreign: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    paths: tuple[Path, ...] = ()


def collect(
    folders: Sequence[Path],
    asked: Mapping[str, Asked] | None = None,
    bounds: Bounds | None = None,
    *,
    with_tables: bool = True,
) -> Collected:
    """Read every ``*.xml`` and, unless told otherwise, all tables below the folders, or the files themselves.

    With ``asked``, by job, a file is also compared with what its job was asked for. Where the samples beside a JUnit
    file cannot be used, its records count without them, and a sentence says so.

    Raises:
        UserError: a folder does not exist.
    """
    bounds = bounds or Bounds()
    files = result_files.find(folders, bounds)
    reading = _Reading(asked, bounds, dict(files.refused))
    for path in files.junit:
        reading.junit(path)
    if with_tables:
        reading.tables(files.runs)
    of_junit = (file for path in files.junit for file in (path, samples.beside(path)))
    return reading.collected((*of_junit, *_paths(files.runs)))


def _paths(runs: Sequence[JobFiles]) -> Iterator[Path]:
    return (path for files in runs for path in files.paths)


@dataclass
class _Reading:
    """The results that were read so far."""

    asked: Mapping[str, Asked] | None
    bounds: Bounds
    refused: dict[Path, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    foreign: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    unique: Unique = field(default_factory=Unique)

    def junit(self, path: Path) -> None:
        """Read a JUnit file with its samples."""
        try:
            validation.check_content(path, self.bounds)
            records = junit.read(path)
            self._check(path.stem, path.parent, records)
            with_samples = _with_samples(path, records, self.bounds, self.broken)
        except RefusedError as error:
            self.refused[path] = str(error)
            return
        except BrokenResultError as error:
            self.broken.append(f"{error}. Its cases are missing below; fetch or make the file again.")
            self.refused.setdefault(path, NOT_WHOLE)
            return
        if self.unique.add(path, with_samples) and (of_others := foreign_records(records)):
            self.foreign[printable(path)] = of_others

    def tables(self, runs: Sequence[JobFiles]) -> None:
        """Read the tables of runs, apart from those that JUnit files have brought already."""
        runs = [files for files in runs if not self.unique.has(files.job, files.run)]
        if not runs:
            return
        from kernel_matrix.results.tables import checks, read  # pyarrow and DuckDB take long to import

        bad = checks.check(runs, self.bounds)
        for files in runs:
            path = files.path("jobs")
            try:
                if reason := bad.get(files):
                    raise RefusedError(reason)
                records = read.read(files)
                for record in records:
                    samples.check(record)
                self._check(files.job, files.folder, records)
                self.unique.add(path, records)
            except RefusedError as error:
                self.refused[path] = str(error)

    def _check(self, job: str, folder: Path, records: Sequence[Record]) -> None:
        validation.check_figures(records)
        if self.asked is not None:
            validation.check_records(job, folder.name, records, self.asked)

    def collected(self, paths: Sequence[Path]) -> Collected:
        """Return what was read from these files."""
        files, records = tuple(self.unique.files), self.unique.records
        broken = (*self.broken, *result_files.sentences(self.refused))
        reasons = result_files.reasons_by_job(self.refused)
        return Collected(files, records, broken, reasons, self.foreign, tuple(paths))


def _with_samples(path: Path, records: list[Record], bounds: Bounds, broken: list[str]) -> list[Record]:
    """Return the records with the samples beside their file, if there are any that can be used."""
    file = samples.beside(path)
    if not file.exists() and not file.is_symlink():
        return records
    try:
        return samples.read(file, records, bounds)
    except RefusedError as error:
        broken.append(f"{printable(file)}: refused: {error}. Its job's results count without samples.")
        return records
