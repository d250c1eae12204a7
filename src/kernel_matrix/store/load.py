"""Result folders -> tables: read all tables of runs below them, journals and JUnit XML into the database, each once."""

from __future__ import annotations

import filecmp
import multiprocessing
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from kernel_matrix.base.words import some
from kernel_matrix.store import checks, junit, names, records, told_results, validation
from kernel_matrix.store.database import THREADS, Connection, database, enter, rows
from kernel_matrix.store.junit import BrokenResultError
from kernel_matrix.store.names import NOT_WHOLE, JobFiles, printable
from kernel_matrix.store.record import TOLD_BY, TOLD_INVENTORY, WORST_FIRST, Record
from kernel_matrix.store.records import Jobs, records_of
from kernel_matrix.store.rows import CASES, JOBS, OUTPUTS, Batch, of_records
from kernel_matrix.store.sampled import Samples
from kernel_matrix.store.touched import touched
from kernel_matrix.store.validation import Asked, Bounds, RefusedError

_FILES_AT_ONCE = 16
_FEW_BYTES = 16 * 2**20  # are read sooner than another process starts, and by one thread


@dataclass(frozen=True)
class Parsed:
    """Some files: why each is refused or broken, and the tables of those that are neither.

    The tables have a column ``file``: the place of the file among ``paths``.
    """

    paths: tuple[Path, ...]
    refused: dict[Path, str]
    broken: dict[Path, str]
    jobs: pa.Table
    cases: pa.Table
    outputs: pa.Table


def parse(paths: Sequence[Path], bounds: Bounds) -> Parsed:
    """Read some files."""
    refused: dict[Path, str] = {}
    broken: dict[Path, str] = {}
    batches: list[tuple[int, Batch]] = []
    for place, path in enumerate(paths):
        try:
            batches.append((place, of_records(junit.read_any(path, bounds))))
        except RefusedError as error:
            refused[path] = str(error)
        except (BrokenResultError, OSError) as error:
            broken[path] = str(error)
        except Exception as error:
            refused[path] = f"it cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:150]})"
    tables = [_joined([(place, getattr(of_file, name)) for place, of_file in batches], name) for name in _TABLES]
    return Parsed(tuple(paths), refused, broken, *tables)


def parse_all(paths: Sequence[Path], bounds: Bounds, processes: int = 2) -> Iterator[Parsed]:
    """Read files in several processes, and yield them in their order."""
    groups = [paths[place : place + _FILES_AT_ONCE] for place in range(0, len(paths), _FILES_AT_ONCE)]
    if _are_few(paths) or processes < 2:
        yield from (parse(group, bounds) for group in groups)
        return
    # A process is started anew, because a fork of one that has threads may hang.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        waiting: list[Future[Parsed]] = []
        for group in groups:
            waiting.append(pool.submit(parse, group, bounds))
            if len(waiting) > 2 * processes:  # no more than these are in memory
                yield waiting.pop(0).result()
        yield from (future.result() for future in waiting)


def _are_few(paths: Iterable[Path]) -> bool:
    return sum(path.stat().st_size for path in paths if path.is_file()) < _FEW_BYTES


_TABLES = {"jobs": JOBS, "cases": CASES, "outputs": OUTPUTS}


def _joined(tables: Sequence[tuple[int, pa.Table]], name: str) -> pa.Table:
    """Return the rows of all tables, each with the place of its file."""
    schema = _TABLES[name].append(pa.field("file", pa.int32()))
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(
        [table.append_column("file", pa.array([place] * table.num_rows, pa.int32())) for place, table in tables]
    ).cast(schema)


@dataclass(frozen=True)
class Loaded:
    """The files that count, and one sentence for each file that was not taken.

    Of tables ``files`` has the file of the jobs. A run counts once, so a file without another run is not among
    ``files``; ``paths`` are all files of results that lie in ``folders``, whether or not they were taken. ``refused``
    has the reasons of files that were not taken by job, for the cases that are missing because of it. ``unread`` is the
    number of results of runs that were left out, because none of their cases is asked for.
    """

    files: tuple[Path, ...]
    broken: tuple[str, ...]
    refused: Mapping[str, str]
    paths: tuple[Path, ...]
    samples: Samples
    folders: tuple[Path, ...] = ()
    unread: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about each part of the results that was not read or not checked."""
        unread = f"{self.unread:,} results were not read: their runs have none of the cases that are asked for."
        return *([unread] if self.unread else []), *self.samples.note

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
    cases: Collection[str] | None = None,
) -> Loaded:
    """Read the results below the folders, or the files themselves, and make them the present sources.

    With ``asked``, by job, a file is also compared with what its job was asked for. With ``cases``, only the runs in
    tables are read that these ids touch.

    Raises:
        UserError: a folder does not exist.
    """
    bounds = bounds or Bounds()
    there = names.find_results(folders, bounds)
    runs, unread = (there.runs, 0) if cases is None else touched(there.runs, cases, bounds)
    if not _are_few((*there.journals, *there.junit, *(path for run in runs for path in run.paths))):
        connection.execute(f"SET threads = {THREADS}")
    loading = _Loading(connection, bounds, Samples(bounds), refused=dict(there.refused))
    connection.begin()  # the rows of files and their numbers are there together, or not at all
    for good in loading.good_tables(runs):
        loading.insert(good)
    connection.commit()
    loading.parse((*there.journals, *there.junit), processes)
    loading.refuse_controls()
    loading.refuse_unsigned()
    if asked is not None:
        loading.compare_with(asked)
    loading.take_samples(runs, there.journals)
    files = loading.present((*(run.path("jobs") for run in runs), *there.journals, *there.junit))
    paths = (*there.junit, *there.journals, *(path for run in there.runs for path in run.paths))
    broken = (*loading.broken, *names.sentences(loading.refused))
    refused = names.reasons_by_job(loading.refused)
    return Loaded(files, broken, refused, paths, loading.samples, tuple(folders), unread)


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


_WITH_CONTROLS = " UNION ".join(
    f"SELECT source FROM {table} WHERE source IN (FROM read) AND ({condition})"
    for table in _TABLES
    for condition in [checks.controls(table, "array_to_string({}, '')".format)]
)


@dataclass
class _Loading:
    """The files that were read so far, by their numbers, and why others are not taken."""

    connection: Connection
    bounds: Bounds
    samples: Samples
    known: dict[Path, int] = field(default_factory=dict)
    refused: dict[Path, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    told: dict[int, dict[str, str]] = field(default_factory=dict)  # the facts of jobs of persons outside the project

    def parse(self, paths: Sequence[Path], processes: int) -> None:
        """Read journals and JUnit files."""
        for parsed in parse_all(paths, self.bounds, processes):
            self.refused |= parsed.refused
            for path, reason in parsed.broken.items():
                self.broken.append(f"{reason}. Its cases are missing below; fetch or make the file again.")
                self.refused[path] = NOT_WHOLE
            first = records.next_source(self.connection)
            numbers = {path: first + index for index, path in enumerate(parsed.paths) if path not in self.refused}
            self.connection.begin()  # the rows of files and their numbers are there together, or not at all
            records.insert_batches(self.connection, parsed.jobs, parsed.cases, parsed.outputs, first)
            records.add_sources(self.connection, {number: path for path, number in numbers.items()})
            self.connection.commit()
            self.known |= numbers

    def good_tables(self, runs: Sequence[JobFiles]) -> Iterator[dict[int, JobFiles]]:
        """Yield the runs by new numbers, and refuse those that cannot be used."""
        first = records.next_source(self.connection)
        for part, bad in checks.checked(runs, self.bounds):
            self.refused |= {files.path("jobs"): reason for files, reason in bad.items()}
            good = dict(enumerate((files for files in part if files not in bad), first))
            first += len(good)
            self.known |= {files.path("jobs"): number for number, files in good.items()}
            yield good

    def insert(self, good: Mapping[int, JobFiles]) -> None:
        """Read the tables of runs."""
        records.insert_runs(self.connection, good)
        records.add_sources(self.connection, {number: files.path("jobs") for number, files in good.items()})

    def refuse_controls(self) -> None:
        """Refuse journals and XML with a character that no job writes, and that a terminal may take for a command."""
        paths = {number: path for path, number in self.known.items() if not names.is_table(path)}
        if paths:  # tables were checked before they were read
            enter(self.connection, "read", pa.schema({"source": pa.int32()}), {"source": [*paths]})
            found = rows(self.connection, _WITH_CONTROLS)
            self.refused |= {paths[number]: checks.WITH_CONTROL for (number,) in found}

    def refuse_unsigned(self) -> None:
        """Refuse files of persons outside the project that are not as these have signed them."""
        question = f"SELECT source, any_value(facts) FROM jobs WHERE facts['{TOLD_BY}'] IS NOT NULL GROUP BY source"
        self.told = dict(rows(self.connection, question))
        for path, number in self.known.items():
            is_told = number in self.told or (path.parent.parent / TOLD_INVENTORY).exists()
            if is_told and (fault := told_results.fault(path, self.told.get(number, {}))):
                self.refused[path] = fault

    def compare_with(self, asked: Mapping[str, Asked]) -> None:
        """Refuse files that are not what their jobs were asked for."""
        for path, source in self.known.items():
            if source in self.told:
                continue
            folder = path.parent if path.suffix == ".xml" else names.files_of(path).folder
            try:
                for job, records in self._by_job(path, source).items():
                    validation.check_records(job, folder.name, records, asked)
            except RefusedError as error:
                self.refused[path] = str(error)

    def _by_job(self, path: Path, source: int) -> dict[str, list[Record]]:
        """Return the cases of a file by the name of their job: the jobs of a packed set, else the one of its name."""
        question = """
            SELECT facts['job'], "case", action FROM (SELECT job, facts FROM jobs WHERE source = $1)
            LEFT JOIN (SELECT job, record, "case", action FROM cases WHERE source = $1) USING (job) ORDER BY record
        """
        is_packed = names.is_table(path) and names.files_of(path).packed
        by_job: dict[str, list[Record]] = {} if is_packed else {names.job_of(path): []}
        for job, case, action in rows(self.connection, question, [source]):
            of_job = by_job.setdefault(job if is_packed else names.job_of(path), [])
            of_job += [Record(case, "pass", action)] if case is not None else []
        return by_job

    def take_samples(self, runs: Sequence[JobFiles], journals: Sequence[Path]) -> None:
        """Read the samples of runs, and refuse runs in tables whose content does not agree with their name."""
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
                if not copy and (twice := sure & of_path):
                    records.delete_runs(self.connection, self.known[path], twice)
                sure |= of_path
            elif not copy and (first := of_junit.setdefault(of_path, path)) != path:
                copy = filecmp.cmp(first, path, shallow=False)
            if not copy:
                taken[path] = self.known[path]
        told = [[number] for number in taken.values() if number in self.told]
        if told:
            self.connection.executemany("INSERT INTO told VALUES (?)", told)
        records.make_present(self.connection, [number for number in taken.values() if number not in self.told])
        return tuple(taken)


@dataclass(frozen=True)
class Collected:
    """Hold the records of the files that count, and all that ``Loaded`` says of the files.

    ``foreign`` has the records that another tool has written, by file.
    """

    files: tuple[Path, ...]
    records: tuple[Record, ...]
    broken: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    foreign: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    paths: tuple[Path, ...] = ()


def collect(
    folders: Sequence[Path], asked: Mapping[str, Asked] | None = None, bounds: Bounds | None = None
) -> Collected:
    """Read all results below the folders, or the files themselves.

    With ``asked``, by job, a file is also compared with what its job was asked for.

    Raises:
        UserError: a folder does not exist.
    """
    with database() as connection:
        loaded = load(connection, folders, asked, bounds)
        question = """
            SELECT record FROM cases JOIN sources USING (source) WHERE position IS NOT NULL ORDER BY position, record
        """
        numbers = [number for (number,) in rows(connection, question)]
        records = tuple(loaded.records(connection, numbers, Jobs(connection)))
        return Collected(loaded.files, records, loaded.broken, loaded.refused, foreign(connection), loaded.paths)


_NAMED = 3  # tests of a file


def not_taken(foreign: Mapping[str, Collection[Record]], planned: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each file with tests of another tool whose names no planned case has.

    Args:
        foreign: the records of other tools, by the file that they came in.
        planned: the ids of the planned cases.
    """
    for file, of_file in foreign.items():
        rest = sorted(
            (record for record in of_file if record.case not in planned),
            key=lambda record: WORST_FIRST.index(record.outcome),
        )
        if rest:
            yield f"{file}: {_in_words(rest)}"


def _in_words(records: list[Record]) -> str:
    counts = Counter(record.outcome for record in records)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    cases = some([printable(record.case)[:150] for record in records], _NAMED)
    number = "1 test of another tool was" if len(records) == 1 else f"{len(records)} tests of another tool were"
    return f"{number} not taken ({outcomes}): {cases}. A result counts if it has the id of a planned case."
