"""The samples of the outputs, which stay in their files: read them, check them, and give them to the deciding records.

Samples are read for as many results as are looked at one by one. Beyond ``MOST_BYTES`` the rest is left out, and a
sentence says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from kernel_matrix.config.plan import Case
from kernel_matrix.results import samples
from kernel_matrix.results.columns.planned import Planned
from kernel_matrix.results.columns.records import Jobs, records_of
from kernel_matrix.results.columns.sql import Connection, rows
from kernel_matrix.results.foreign import printable
from kernel_matrix.results.record import Record, Sample
from kernel_matrix.results.tables import journal, names, read
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import Bounds, RefusedError

MOST_BYTES = 256 * 2**20  # of samples in memory
# Cases of runs whose identity is computed, which takes about 0.2 ms for each; of more, runs with OF_MORE cases.
MOST_CHECKED, OF_MORE = 50_000, 5_000
_Key = tuple[str, str, str]  # the job, or the file of one without a name; when it started; the case


@dataclass
class Samples:
    """The samples of all files by job, start and case, and what was not taken.

    A copy of a run may bring samples that the other copy lacks.
    """

    bounds: Bounds
    broken: list[str] = field(default_factory=list)
    _by_case: dict[_Key, Mapping[str, Sample]] = field(default_factory=dict)
    _bytes: int = 0
    _left_out: int = 0
    _unchecked: tuple[int, int] = (0, 0)  # the runs whose identity was not computed, and the number of all

    def choose_checked(self, cases: Mapping[JobFiles, int]) -> Collection[JobFiles]:
        """Return the runs whose identity is computed, of all runs with their numbers of cases."""
        chosen = {*cases} if sum(cases.values()) <= MOST_CHECKED else _at_random(cases, OF_MORE)
        if unchecked := len(cases) - len(chosen):
            self._unchecked = unchecked, len(cases)
        return chosen

    def of_file(self, connection: Connection, path: Path, source: int, jobs: Jobs) -> None:
        """Read the samples of a journal, or beside a JUnit file, that the database has as ``source``."""
        if names.is_journal(path):
            self.add(path, journal.read(path, self.bounds))
            return
        file = samples.beside(path)
        if not file.exists() and not file.is_symlink():
            return
        if self._is_full():
            return
        numbers = [
            n for (n,) in rows(connection, "SELECT record FROM cases WHERE source = ? ORDER BY record", [source])
        ]
        of_file = records_of(connection, numbers, jobs, outputs=False)
        try:
            self.add(path, samples.read(file, [of_file[number] for number in numbers], self.bounds))
        except RefusedError as error:
            self.broken.append(f"{printable(file)}: refused: {error}. Its job's results count without samples.")

    def of_run(self, files: JobFiles, *, whole: bool) -> None:
        """Read the samples of a run in tables that were checked; ``whole`` computes its identity too.

        Raises:
            RefusedError: its content is not that of its name, or its samples cannot be used.
        """
        if not whole and not read.has_samples(files):
            return
        if not whole and self._is_full():
            return
        records = read.read(files)
        for record in records:
            samples.check(record)
        self.add(files.path("jobs"), records)

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

    def of(self, job: Mapping[str, str], path: str, case: str) -> Mapping[str, Sample]:
        """Return the samples of a case of a job; ``path`` is the file of its results."""
        return self._by_case.get(_key(job, path, case), {})

    def deciding(self, connection: Connection, planned: Planned, jobs: Jobs) -> Iterator[tuple[Case, Record]]:
        """Yield the cases with their deciding records that have samples, and one record of each lane without any.

        The latter have no figures of outputs.
        """
        question = """
            SELECT planned, record, job, path FROM verdicts JOIN planned USING (planned) JOIN cases USING (record)
            JOIN sources USING (source) WHERE action IN ('run', 'emulate') ORDER BY cell, planned
        """
        sampled: dict[int, tuple[Case, Mapping[str, Sample]]] = {}
        for number, record, job, path in rows(connection, question) if self._by_case else ():
            case = planned.case(number)
            if found := self.of(jobs[job], path, case.id):
                sampled[record] = case, found
        without = """
            WITH of_cells AS (  -- the first of each cell, so that few ids are taken apart
                SELECT cell, arg_min(record, planned) AS record, min(planned) AS planned
                FROM taken WHERE action IN ('run', 'emulate') AND outcome IN ('pass', 'fail')
                  AND NOT list_contains($1::BIGINT[], record)
                GROUP BY cell
            )
            SELECT arg_min(planned, cell), arg_min(record, cell) FROM of_cells JOIN plan_cells USING (cell)
            GROUP BY regexp_extract(id, '^[^/]*/[^/]*/[^/]*') ORDER BY min(cell)
        """
        lanes = {record: planned.case(number) for number, record in rows(connection, without, [list(sampled)])}
        records = records_of(connection, sampled, jobs) if sampled else {}
        for number, (case, found) in sampled.items():
            yield case, replace(records[number], samples=found)
        records = records_of(connection, lanes, jobs, outputs=False)  # they are counted, and never compared
        for number, case in lanes.items():
            yield case, records[number]

    def _is_full(self) -> bool:
        full = self._bytes >= MOST_BYTES
        self._left_out += full
        return full

    def add(self, path: Path, records: Sequence[Record]) -> None:
        """Take in the samples of the records of a file."""
        for record in records:
            if record.samples:
                self._by_case.setdefault(_key(record.job, str(path), record.case), record.samples)
                self._bytes += sum(len(sample.bits) for sample in record.samples.values())


def _at_random(cases: Mapping[JobFiles, int], most: int) -> set[JobFiles]:
    """Return runs that have at most so many cases together."""
    order = sorted(cases, key=lambda files: files.path("jobs"))
    Random().shuffle(order)  # noqa: S311  other ones in each report, and nothing secret
    chosen: set[JobFiles] = set()
    left = most
    for files in order:
        if cases[files] <= left:
            chosen.add(files)
            left -= cases[files]
    return chosen


def _key(job: Mapping[str, str], path: str, case: str) -> _Key:
    return job.get("job", path), job.get("started", ""), case
