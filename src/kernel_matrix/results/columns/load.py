"""Result folders -> tables: read all tables of runs below them, journals and JUnit XML into the database, each once."""

from __future__ import annotations

import filecmp
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernel_matrix.results import result_files, validation
from kernel_matrix.results.columns import insert
from kernel_matrix.results.columns.parse import parse_all
from kernel_matrix.results.columns.records import Jobs, records_of
from kernel_matrix.results.columns.sampled import Samples
from kernel_matrix.results.columns.sql import Connection, rows
from kernel_matrix.results.foreign import printable
from kernel_matrix.results.record import Record
from kernel_matrix.results.result_files import NOT_WHOLE
from kernel_matrix.results.tables import checks, names
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import Asked, Bounds, RefusedError


@dataclass(frozen=True)
class Loaded:
    """The files that count, and one sentence for each file that was not taken.

    Of tables ``files`` has the file of the jobs. A run counts once, so a file without another run is not among
    ``files``; ``paths`` are all files of results that lie in ``folders``, whether or not they were taken. ``refused``
    has the reasons of files that were not taken by job, for the cases that are missing because of it.
    """

    files: tuple[Path, ...]
    broken: tuple[str, ...]
    refused: Mapping[str, str]
    paths: tuple[Path, ...]
    samples: Samples
    folders: tuple[Path, ...] = ()

    def records(self, connection: Connection, numbers: Sequence[int], jobs: Jobs) -> list[Record]:
        """Return records with the figures and the samples of their outputs, in this order."""
        found = records_of(connection, numbers, jobs)
        return [replace(found[number], samples=self.samples.of(found[number])) for number in numbers]


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
    loading = _Loading(connection, bounds, Samples(bounds), refused=dict(there.refused))
    connection.begin()  # the rows of files and their numbers are there together, or not at all
    for good in loading.good_tables(there.runs):
        loading.insert(good)
    connection.commit()
    loading.parse((*there.journals, *there.junit), processes)
    if asked is not None:
        loading.compare_with(asked)
    loading.take_samples(there.runs, there.journals)
    files = loading.present((*(run.path("jobs") for run in there.runs), *there.journals, *there.junit))
    paths = (*there.junit, *there.journals, *(path for run in there.runs for path in run.paths))
    broken = (*loading.broken, *result_files.sentences(loading.refused))
    refused = result_files.reasons_by_job(loading.refused)
    return Loaded(files, broken, refused, paths, loading.samples, tuple(folders))


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

    def parse(self, paths: Sequence[Path], processes: int) -> None:
        """Read journals and JUnit files."""
        for parsed in parse_all(paths, self.bounds, processes):
            self.refused |= parsed.refused
            for path, reason in parsed.broken.items():
                self.broken.append(f"{reason}. Its cases are missing below; fetch or make the file again.")
                self.refused[path] = NOT_WHOLE
            first = insert.next_source(self.connection)
            numbers = {path: first + place for place, path in enumerate(parsed.paths) if path not in self.refused}
            self.connection.begin()  # the rows of files and their numbers are there together, or not at all
            insert.insert_batches(self.connection, parsed.jobs, parsed.cases, parsed.outputs, first)
            insert.add_sources(self.connection, {number: path for path, number in numbers.items()})
            self.connection.commit()
            self.known |= numbers

    def good_tables(self, runs: Sequence[JobFiles]) -> Iterator[dict[int, JobFiles]]:
        """Yield the runs by new numbers, and refuse those that cannot be used."""
        first = insert.next_source(self.connection)
        for part, bad in checks.checked(runs, self.bounds):
            self.refused |= {files.path("jobs"): reason for files, reason in bad.items()}
            good = dict(enumerate((files for files in part if files not in bad), first))
            first += len(good)
            self.known |= {files.path("jobs"): number for number, files in good.items()}
            yield good

    def insert(self, good: Mapping[int, JobFiles]) -> None:
        """Read the tables of runs."""
        insert.insert_runs(self.connection, good)
        insert.add_sources(self.connection, {number: files.path("jobs") for number, files in good.items()})

    def compare_with(self, asked: Mapping[str, Asked]) -> None:
        """Refuse files that are not what their jobs were asked for."""
        question = 'SELECT "case", action FROM cases WHERE source = ? ORDER BY record'
        for path, source in self.known.items():
            records = (Record(case, "pass", action) for case, action in rows(self.connection, question, [source]))
            folder = path.parent if path.suffix == ".xml" else path.parent.parent
            try:
                validation.check_records(result_files.job_of(path), folder.name, records, asked)
            except RefusedError as error:
                self.refused[path] = str(error)

    def take_samples(self, runs: Sequence[JobFiles], journals: Sequence[Path]) -> None:
        """Read the samples of runs, and refuse runs in tables whose content is not that of their name."""
        taken = (files for files in runs if files.path("jobs") not in self.refused)
        by_number = {self.known[files.path("jobs")]: files for files in taken}
        for files, reason in self.samples.of_runs(self.connection, by_number).items():
            self.refused[files.path("jobs")] = reason
        for path in journals:
            if path in self.known and path not in self.refused:
                self.samples.of_journal(path)

    def present(self, ordered: Sequence[Path]) -> tuple[Path, ...]:
        """Make the files that are taken the present sources, and return them: each run counts once.

        The digest of tables and of journals makes sure which run they are of. JUnit XML only says it, so it is a copy
        of these, or of the same bytes.
        """
        runs = dict(rows(self.connection, "SELECT source, list(DISTINCT run) FROM jobs GROUP BY source"))
        sure: set[str] = set()
        of_junit: dict[frozenset[str], Path] = {}
        taken: dict[Path, int] = {}
        for path in ordered:
            if path not in self.known or path in self.refused:
                continue
            of_path = frozenset(runs.get(self.known[path], ()))
            copy = of_path and sure.issuperset(of_path)
            if names.is_table(path) or names.is_journal(path):
                sure |= of_path
            elif not copy and (first := of_junit.setdefault(of_path, path)) != path:
                copy = filecmp.cmp(first, path, shallow=False)
            if not copy:
                taken[path] = self.known[path]
        insert.make_present(self.connection, [*taken.values()])
        return tuple(taken)
