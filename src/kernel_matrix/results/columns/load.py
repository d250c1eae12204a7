"""Result folders -> tables: read all JUnit XML below them, and the tables of runs, into the database, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from kernel_matrix.results import result_files, samples, validation
from kernel_matrix.results.columns import sources
from kernel_matrix.results.columns.insert import insert_batches, insert_runs, next_source
from kernel_matrix.results.columns.parse import Parsed, parse_all
from kernel_matrix.results.columns.records import Jobs
from kernel_matrix.results.columns.sampled import Samples
from kernel_matrix.results.columns.sql import Connection, rows
from kernel_matrix.results.foreign import printable
from kernel_matrix.results.record import Record
from kernel_matrix.results.result_files import NOT_WHOLE
from kernel_matrix.results.tables import checks
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import Asked, Bounds, RefusedError


@dataclass(frozen=True)
class Loaded:
    """The files that count, and one sentence for each file that was not taken.

    ``refused`` has the reasons of the latter by job, for the cases that are missing because of it. ``paths`` are all
    files of results that lie in ``folders``, whether or not they were taken.
    """

    files: tuple[Path, ...]
    broken: tuple[str, ...]
    refused: Mapping[str, str]
    paths: tuple[Path, ...]
    samples: Samples
    folders: tuple[Path, ...] = ()


def load(
    connection: Connection,
    folders: Sequence[Path],
    asked: Mapping[str, Asked] | None = None,
    bounds: Bounds | None = None,
    processes: int = 2,
) -> Loaded:
    """Read the results below the folders, or the files themselves, and make them the present sources.

    With ``asked``, by job, a file is also compared with what its job was asked for.

    Raises:
        UserError: a folder does not exist.
    """
    bounds = bounds or Bounds()
    there = result_files.find(folders, bounds)
    files, runs = (*there.journals, *there.junit), there.runs
    loading = _Loading(connection, bounds, Samples(bounds), refused=dict(there.refused))
    connection.begin()  # the rows of files and their numbers are there together, or not at all
    insert_last = partial(loading.insert, loading.insert_checked(runs))
    if asked is None:
        loading.take_samples(runs, beside=insert_last)
    else:
        insert_last()
        loading.compare_with(asked)
        loading.take_samples(runs)
    connection.commit()
    loading.parse(files, processes)
    if asked is not None:
        loading.compare_with(asked)
    loading.take_samples_of_files(files)
    of_junit = (file for path in there.junit for file in (path, samples.beside(path)))
    of_runs = (path for run in runs for path in run.paths)
    ordered = (*(run.path("jobs") for run in runs), *files)
    paths = (*of_junit, *there.journals, *of_runs)
    return replace(loading.loaded(loading.present(ordered), paths), folders=tuple(folders))


def foreign(connection: Connection) -> dict[str, tuple[Record, ...]]:
    """Return the records that another tool has written, by file: case and outcome of each."""
    question = """
        SELECT path, "case", outcome FROM cases JOIN sources USING (source) JOIN jobs USING (source, job)
        WHERE position IS NOT NULL AND jobs.facts['job'] IS NULL ORDER BY position, record
    """
    by_file: dict[str, list[Record]] = {}
    for path, case, outcome in rows(connection, question):
        by_file.setdefault(printable(path), []).append(Record(case, outcome))
    return {path: tuple(records) for path, records in by_file.items()}


@dataclass
class _Loading:
    """The files that were read so far, by their numbers, and why others are not taken."""

    connection: Connection
    bounds: Bounds
    samples: Samples
    known: dict[Path, int] = field(default_factory=dict)
    refused: dict[Path, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    runs: dict[Path, tuple[str, ...]] = field(default_factory=dict)

    def parse(self, paths: Sequence[Path], processes: int) -> None:
        """Read the journals and the JUnit files, when all tables are there."""
        starts = rows(self.connection, "SELECT DISTINCT facts['job'], coalesce(facts['started'], '') FROM jobs")
        twins = frozenset(starts) if paths else frozenset()
        for parsed in parse_all(paths, self.bounds, processes, twins=twins):
            self.refused |= parsed.refused
            self.runs |= parsed.runs
            for path, reason in parsed.broken.items():
                self.broken.append(f"{reason}. Its cases are missing below; fetch or make the file again.")
                self.refused[path] = NOT_WHOLE
            self._insert(parsed)

    def _insert(self, parsed: Parsed) -> None:
        first = next_source(self.connection)
        numbers = {path: first + place for place, path in enumerate(parsed.paths) if path not in self.refused}
        self.connection.begin()  # the rows of files and their numbers are there together, or not at all
        insert_batches(self.connection, parsed.jobs, parsed.cases, parsed.outputs, first)
        sources.add(self.connection, {number: path for path, number in numbers.items()})
        self.connection.commit()
        self.known |= numbers

    def insert_checked(self, runs: Sequence[JobFiles]) -> dict[int, JobFiles]:
        """Read the tables of runs, some while those after them are checked. Return the last, which are not read."""
        last: dict[int, JobFiles] = {}
        for part in self._good_tables(runs):
            self.insert(last)
            last = part
        return last

    def _good_tables(self, runs: Sequence[JobFiles]) -> Iterator[dict[int, JobFiles]]:
        """Yield the runs by new numbers, and refuse those that cannot be used."""
        first = next_source(self.connection)
        for part, bad in checks.checked(runs, self.bounds):
            self.refused |= {files.path("jobs"): reason for files, reason in bad.items()}
            good = dict(enumerate((files for files in part if files not in bad), first))
            first += len(good)
            self.known |= {files.path("jobs"): number for number, files in good.items()}
            self.runs |= {files.path("jobs"): (files.run,) for files in good.values()}
            yield good

    def insert(self, good: Mapping[int, JobFiles]) -> None:
        """Read the tables of runs."""
        insert_runs(self.connection, good)
        sources.add(self.connection, {number: files.path("jobs") for number, files in good.items()})

    def compare_with(self, asked: Mapping[str, Asked]) -> None:
        """Refuse files that are not what their jobs were asked for."""
        for path, source in self.known.items():
            answer = rows(
                self.connection, 'SELECT "case", action FROM cases WHERE source = ? ORDER BY record', [source]
            )
            records = (Record(case, "pass", action) for case, action in answer)
            folder = path.parent if path.suffix == ".xml" else path.parent.parent
            try:
                validation.check_records(result_files.job_of(path), folder.name, records, asked)
            except RefusedError as error:
                self.refused[path] = str(error)

    def take_samples(self, runs: Sequence[JobFiles], beside: Callable[[], None] = lambda: None) -> None:
        """Read the samples of runs in tables, and refuse those whose content is not that of their name.

        ``beside`` is done meanwhile: reading samples needs no database.
        """
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._samples_of_runs, runs)
            beside()
            reading.result()

    def take_samples_of_files(self, paths: Sequence[Path]) -> None:
        """Read the samples of journals, and those beside JUnit files."""
        jobs = Jobs(self.connection, "" if paths else "WHERE false")
        for path in paths:
            if path in self.known and path not in self.refused:
                self.samples.of_file(self.connection, path, self.known[path], jobs)

    def present(self, ordered: Sequence[Path]) -> tuple[Path, ...]:
        """Make the files that are taken the present sources, and return them: each run counts once."""
        before: set[str] = set()
        taken: dict[Path, int] = {}
        for path in ordered:
            if path not in self.known or path in self.refused:
                continue
            runs = self.runs[path]
            if not runs or not before.issuperset(runs):
                taken[path] = self.known[path]
            before.update(runs)
        sources.make_present(self.connection, [*taken.values()])
        return tuple(taken)

    def _samples_of_runs(self, runs: Sequence[JobFiles]) -> None:
        """Read the samples of the runs that are taken, and refuse those whose identity is another."""
        taken = [files for files in runs if files.path("jobs") not in self.refused]
        cases = {files: pq.ParquetFile(files.path("cases")).metadata.num_rows for files in taken}
        checked = self.samples.choose_checked(cases)
        for files in taken:
            try:
                self.samples.of_run(files, whole=files in checked)
            except RefusedError as error:
                self.refused[files.path("jobs")] = str(error)

    def loaded(self, files: tuple[Path, ...], paths: tuple[Path, ...]) -> Loaded:
        """Return what was read from these files."""
        broken = (*self.broken, *self.samples.broken, *result_files.sentences(self.refused))
        return Loaded(files, broken, result_files.reasons_by_job(self.refused), paths, self.samples)
