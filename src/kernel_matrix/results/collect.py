"""Result folders -> Records: read all tables, journals and JUnit XML below them, the latter with the samples beside it.

Every file that is broken or refused is named, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernel_matrix.results import junit, result_files, samples, validation
from kernel_matrix.results.foreign import foreign_records, printable
from kernel_matrix.results.junit import BrokenResultError
from kernel_matrix.results.record import Record
from kernel_matrix.results.result_files import NOT_WHOLE
from kernel_matrix.results.tables import journal
from kernel_matrix.results.tables.identity import identity
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import Asked, Bounds, RefusedError


@dataclass(frozen=True)
class Collected:
    """The files that were taken, their records, and one sentence for each file that was not taken.

    Of tables ``files`` has the file of the jobs. Results with the same ``run`` are the same run and count once, so a
    file without another run is not among ``files``; ``paths`` are all files of results that lie in the folders, whether
    or not they were taken. ``refused`` has the reasons of files that were not taken by job, for the cases that are
    missing because of it. ``foreign`` has the records that another tool has written, by file.
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
    """Read all results below the folders, or the files themselves; all but the tables if told so.

    With ``asked``, by job, a file is also compared with what its job was asked for. Where the samples beside a JUnit
    file cannot be used, its records count without them, and a sentence says so.

    Raises:
        UserError: a folder does not exist.
    """
    bounds = bounds or Bounds()
    files = result_files.find(folders, bounds)
    reading = _Reading(asked, bounds, dict(files.refused))
    if with_tables:
        reading.tables(files.runs)
    for path in files.journals:
        reading.journal(path)
    for path in files.junit:
        reading.junit(path)
    of_junit = (file for path in files.junit for file in (path, samples.beside(path)))
    of_tables = (path for run in files.runs for path in run.paths)
    return reading.collected((*of_junit, *files.journals, *of_tables))


@dataclass
class _Reading:
    """The results that were read so far, by their runs."""

    asked: Mapping[str, Asked] | None
    bounds: Bounds
    refused: dict[Path, str]
    broken: list[str] = field(default_factory=list)
    foreign: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    runs: dict[str, list[Record]] = field(default_factory=dict)

    def tables(self, runs: Sequence[JobFiles]) -> None:
        """Read the tables of runs."""
        if not runs:
            return
        from kernel_matrix.results.tables import checks, read  # pyarrow and DuckDB take long to import

        bad = checks.check(runs, self.bounds)
        for files in runs:
            path = files.path("jobs")
            try:
                if reason := bad.get(files):
                    raise RefusedError(reason)
                if files.run in self.runs:
                    continue
                records = read.read(files)
                for record in records:
                    samples.check(record)
                self._check(files.job, files.folder, records)
                self._add(path, records)
            except RefusedError as error:
                self.refused[path] = str(error)

    def journal(self, path: Path) -> None:
        """Read the journal that a machine has left in place of tables."""
        try:
            records = journal.read(path, self.bounds)
            self._check(result_files.job_of(path), path.parent.parent, records)
            self._add(path, records)
        except RefusedError as error:
            self.refused[path] = str(error)

    def junit(self, path: Path) -> None:
        """Read a JUnit file and its samples."""
        try:
            records = junit.read(path, self.bounds)
            self._check(path.stem, path.parent, records)
            with_samples = _with_samples(path, records, self.bounds, self.broken)
        except RefusedError as error:
            self.refused[path] = str(error)
            return
        except BrokenResultError as error:
            self.broken.append(f"{error}. Its cases are missing below; fetch or make the file again.")
            self.refused.setdefault(path, NOT_WHOLE)
            return
        if self._add(path, _with_own_runs(with_samples)) and (of_others := foreign_records(records)):
            self.foreign[printable(path)] = of_others

    def _check(self, job: str, folder: Path, records: Sequence[Record]) -> None:
        validation.check_figures(records)
        if self.asked is not None:
            validation.check_records(job, folder.name, records, self.asked)

    def _add(self, path: Path, records: Sequence[Record]) -> bool:
        """Take the runs of a file that are not there yet, and return whether the file has one."""
        new = _by_run(record for record in records if record.run not in self.runs)
        self.runs |= new
        if new or not records:
            self.files.append(path)
        return bool(new)

    def collected(self, paths: Sequence[Path]) -> Collected:
        """Return what was read from these files."""
        records = tuple(record for run in self.runs.values() for record in run)
        broken = (*self.broken, *result_files.sentences(self.refused))
        reasons = result_files.reasons_by_job(self.refused)
        return Collected(tuple(self.files), records, broken, reasons, self.foreign, tuple(paths))


def _by_run(records: Iterable[Record]) -> dict[str, list[Record]]:
    runs: dict[str, list[Record]] = {}
    for record in records:
        runs.setdefault(record.run, []).append(record)
    return runs


def _with_own_runs(records: Sequence[Record]) -> list[Record]:
    """Return records with the run that tables of the same results have; another tool's keep their own."""
    made: list[Record] = []
    for run, of_run in _by_run(records).items():
        job = of_run[0].job
        own = identity(job, of_run) if "job" in job else run
        made += (replace(record, run=own) for record in of_run)
    return made


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
