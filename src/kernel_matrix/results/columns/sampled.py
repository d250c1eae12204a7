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
from kernel_matrix.results.record import Record, Sample
from kernel_matrix.results.tables import journal, read
from kernel_matrix.results.tables.identity import identity
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import Bounds, RefusedError

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

        Return why runs are refused: their content is not that of their name, or their samples cannot be used.
        """
        cases = dict(rows(connection, "SELECT source, count(*) FROM cases GROUP BY source"))
        checked = self._choose_checked({number: cases.get(number, 0) for number in runs})
        jobs = Jobs(connection, "")
        refused: dict[JobFiles, str] = {}
        for first in range(0, len(runs), _AT_ONCE):
            numbers = [*runs][first : first + _AT_ONCE]
            asked = [n for n in numbers if n in checked or (read.has_samples(runs[n]) and not self._is_full())]
            for number, records in _by_source(connection, asked, jobs).items():
                try:
                    self._of_run(runs[number], records)
                except RefusedError as error:
                    refused[runs[number]] = str(error)
        return refused

    def _of_run(self, files: JobFiles, records: Sequence[Record]) -> None:
        of_cases = read.samples_of(files)
        records = [replace(record, samples=of_cases.get(record.case, {})) for record in records]
        if records and (content := identity(records[0].job, records)) != files.run:
            raise RefusedError(f"its content is that of the run {content}, and not of {files.run}: a file was changed")
        for record in records:
            samples.check(record)
        self.add(records)

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
        return self._by_case.get((record.run, record.case), {})

    def deciding(self, connection: Connection, planned: Planned, jobs: Jobs) -> Iterator[tuple[Case, Record]]:
        """Yield the cases with their deciding records that have samples, and one record of each lane without any.

        The latter have no figures of outputs.
        """
        question = """
            SELECT planned, record, job FROM verdicts JOIN planned USING (planned) JOIN cases USING (record)
            WHERE action IN ('run', 'emulate') ORDER BY cell, planned
        """
        sampled: dict[int, tuple[Case, Mapping[str, Sample]]] = {}
        for number, record, job in rows(connection, question) if self._by_case else ():
            case = planned.case(number)
            if found := self._by_case.get((jobs.run(job), case.id)):
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

    def add(self, records: Sequence[Record]) -> None:
        """Take in the samples of records."""
        for record in records:
            if record.samples:
                self._by_case.setdefault((record.run, record.case), record.samples)
                self._bytes += sum(len(sample.bits) for sample in record.samples.values())


def _by_source(connection: Connection, sources: Sequence[int], jobs: Jobs) -> dict[int, list[Record]]:
    """Return the records of some sources."""
    found = rows(connection, "SELECT source, record FROM cases WHERE list_contains(?, source)", [sources])
    records = records_of(connection, [record for _, record in found], jobs)
    by_source: dict[int, list[Record]] = {source: [] for source in sources}
    for source, record in found:
        by_source[source].append(records[record])
    return by_source


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
