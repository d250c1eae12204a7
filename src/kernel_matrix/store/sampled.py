"""The samples of the outputs, which stay in their files: read them, check them, and add them to the
records that decide cases.

Samples are read for as many results as are looked at one by one. Beyond ``MOST_BYTES`` the rest is left out, and a
sentence says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from kernel_matrix.store import journal, samples
from kernel_matrix.store.database import JOBS_OF_A_FILE, Connection, rows
from kernel_matrix.store.names import JobFiles
from kernel_matrix.store.reading import source_of
from kernel_matrix.store.record import Record, Sample, identity
from kernel_matrix.store.records import Jobs, records_of
from kernel_matrix.store.schema import SCHEMAS
from kernel_matrix.store.validation import Bounds, RefusedError

OfRun = dict[str, dict[str, Sample]]  # the samples of a run by case and output


def samples_of(files: JobFiles) -> dict[str, OfRun]:
    """Return the samples of each run in some files.

    Raises:
        RefusedError: their file cannot be read.
    """
    path = files.path("samples")
    try:  # not read_table: it takes a folder called NAME=VALUE for a column
        content = pq.ParquetFile(path).read()
        columns = [content.column(name).to_pylist() for name in SCHEMAS["samples"].names]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"samples/{path.name} cannot be read ({error})") from None
    by_run: dict[str, OfRun] = {}
    for run, case, output, dtype, shape, sha256, bits in zip(*columns, strict=True):
        by_run.setdefault(run, {}).setdefault(case, {})[output] = Sample(dtype, tuple(shape), sha256, bits)
    return by_run


MOST_BYTES = 256 * 2**20  # of samples in memory
# Cases of runs whose identity is computed, which takes about 0.2 ms for each; of more, runs with OF_MORE cases.
MOST_CHECKED, OF_MORE = 50_000, 5_000
_AT_ONCE = 20  # runs whose records are objects at the same time


@dataclass
class Samples:
    """The samples of all files by run and case, and what was not taken."""

    bounds: Bounds
    _by_case: dict[tuple[str, str], Mapping[str, Sample]] = field(default_factory=dict)
    _bytes: int = 0
    _left_out: int = 0
    _unchecked: tuple[int, int] = (0, 0)  # the runs whose identity was not computed, and the number of all

    def of_journal(self, path: Path) -> None:
        """Read the samples of a journal."""
        self.add(journal.read(path, self.bounds))

    def of_runs(self, connection: Connection, runs: Mapping[int, JobFiles]) -> dict[JobFiles, str]:
        """Read the samples of runs in tables, which are there by number, and compute the identity of runs.

        Return why runs are refused: their content does not agree with their name, or their samples cannot be used.
        """
        cases = dict(rows(connection, "SELECT source, count(*) FROM cases GROUP BY source"))
        checked = self._choose_checked({number: cases.get(number, 0) for number in runs})
        jobs = Jobs(connection, "")
        by_source: dict[int, dict[str, Mapping[str, str]]] = {}  # the facts of the runs of each
        for job, facts in jobs.facts.items():
            by_source.setdefault(job // JOBS_OF_A_FILE, {})[jobs.run(job)] = facts
        refused: dict[JobFiles, str] = {}
        sampled = _with_samples(connection, runs)
        wanted = [number for number in runs if number in checked or number in sampled]
        for first in range(0, len(wanted), _AT_ONCE):
            asked = [n for n in wanted[first : first + _AT_ONCE] if n in checked or not self._is_full()]
            for number, records in _by_source(connection, asked, jobs).items():
                try:
                    self._of_files(runs[number], records, by_source.get(number, {}))
                except RefusedError as error:
                    refused[runs[number]] = str(error)
        return refused

    def _of_files(self, files: JobFiles, records: Sequence[Record], facts: Mapping[str, Mapping[str, str]]) -> None:
        sampled = samples_of(files)
        of_files = [replace(one, samples=sampled.get(one.run, {}).get(one.case, {})) for one in records]
        by_run = _by_run(of_files)
        for run, of_job in facts.items():
            if (content := identity(of_job, by_run.get(run, []))) != run:
                raise RefusedError(f"its content is that of the run {content}, and not of {run}: a file was changed")
        for record in of_files:
            samples.check(record)
        self.add(of_files)

    def _choose_checked(self, cases: Mapping[int, int]) -> Collection[int]:
        """Return the runs whose identity is computed, of all runs with their numbers of cases."""
        chosen = {*cases} if sum(cases.values()) <= MOST_CHECKED else _at_random(cases, OF_MORE)
        if unchecked := len(cases) - len(chosen):
            self._unchecked = unchecked, len(cases)
        return chosen

    @property
    def note(self) -> tuple[str, ...]:
        """A sentence about the samples that were left out, and one about runs that were not checked as a whole."""
        unchecked, runs = self._unchecked
        sentences = []
        if self._left_out:
            sentences.append(
                f"Samples of {self._left_out} files are not compared: all samples that are compared have "
                f"{MOST_BYTES // 2**20} MiB at most."
            )
        if unchecked:
            sentences.append(
                f"Of {runs} runs in tables {unchecked} were not held to the digest in their names, but to all other "
                "checks: a table that was changed and still holds together is found there by chance alone."
            )
        return tuple(sentences)

    def of(self, record: Record) -> Mapping[str, Sample]:
        """Return the samples of a record."""
        return self.find(record.run, record.case)

    def find(self, run: str, case: str) -> Mapping[str, Sample]:
        """Return the samples of a case of a run."""
        return self._by_case.get((run, case), {})

    @property
    def runs(self) -> list[str]:
        """The runs that have samples."""
        return [*{run: None for run, _ in self._by_case}]

    def __bool__(self) -> bool:
        """Return whether there are samples of any case."""
        return bool(self._by_case)

    def _is_full(self) -> bool:
        full = self._bytes >= MOST_BYTES
        self._left_out += full
        return full

    def add(self, records: Sequence[Record]) -> None:
        """Take in the samples of records."""
        for record in records:
            if record.samples:
                self._by_case.setdefault((record.run, record.case), record.samples)
                self._bytes += sum(len(sample.bits) for sample in record.samples.values())


def _with_samples(connection: Connection, runs: Mapping[int, JobFiles]) -> set[int]:
    """Return the runs that have samples."""
    question = f"SELECT DISTINCT file_index FROM {source_of('samples', [*runs.values()])}"
    numbers = [*runs]
    return {numbers[place] for (place,) in rows(connection, question)} if runs else set()


def _by_source(connection: Connection, sources: Sequence[int], jobs: Jobs) -> dict[int, list[Record]]:
    """Return the records of some sources."""
    found = rows(connection, "SELECT source, record FROM cases WHERE list_contains(?, source)", [sources])
    records = records_of(connection, [record for _, record in found], jobs)
    by_source: dict[int, list[Record]] = {source: [] for source in sources}
    for source, record in found:
        by_source[source].append(records[record])
    return by_source


def _by_run(records: Sequence[Record]) -> dict[str, list[Record]]:
    by_run: dict[str, list[Record]] = {}
    for record in records:
        by_run.setdefault(record.run, []).append(record)
    return by_run


def _at_random(cases: Mapping[int, int], most: int) -> set[int]:
    """Return runs that have at most so many cases together."""
    order = [*cases]
    Random().shuffle(order)  # noqa: S311  other ones in each report, and nothing secret
    chosen: set[int] = set()
    left = most
    for number in order:
        if cases[number] <= left:
            chosen.add(number)
            left -= cases[number]
    return chosen
