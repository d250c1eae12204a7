"""Results in the database, judged: what a report asks of them beside the figures of cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from kernel_matrix.config.plan import Case
from kernel_matrix.config.rule_state import RuleState
from kernel_matrix.results.columns.cells import CellFigures, cells
from kernel_matrix.results.columns.load import Loaded
from kernel_matrix.results.columns.planned import Planned
from kernel_matrix.results.columns.records import OF_CASES, Jobs, records_of
from kernel_matrix.results.columns.sql import Connection, one, rows
from kernel_matrix.results.compare import RED, State, Verdict
from kernel_matrix.results.present import Present
from kernel_matrix.results.record import BENCH, PROBE, Record


@dataclass(frozen=True)
class Judged:
    """The verdicts of a plan in a database that is open, and what could not be compared (a sentence each).

    ``not_taken`` has a sentence for each file with results of other tools that are of no planned case. ``ended`` has
    the expectations and exclusions that are over, that match nothing, or whose cases no longer fail.
    """

    connection: Connection
    planned: Planned
    package: str
    tier: str
    loaded: Loaded
    jobs: Jobs
    notes: tuple[str, ...] = ()
    not_taken: tuple[str, ...] = ()
    ended: tuple[RuleState, ...] = ()
    presence: Present | None = None

    def cells(self) -> list[CellFigures]:
        """Return the figures of all cells in the order of the plan."""
        return cells(self.connection, self.planned)

    @cached_property
    def counts(self) -> dict[State, int]:
        """The number of cases by state."""
        return dict(rows(self.connection, "SELECT state, count(*) FROM verdicts GROUP BY state"))

    @property
    def asked(self) -> set[str]:
        """The ids of all planned cases."""
        return {self.planned.case(number).id for number in range(len(self.planned.cell))}

    def asked_of(self, places: Container[tuple[str, str]]) -> set[str]:
        """Return the ids of the planned cases of these platforms' toolchains."""
        cells = [number for number, cell in enumerate(self.planned.cells) if (cell.platform, cell.toolchain) in places]
        return {self.planned.case(number).id for number in np.flatnonzero(np.isin(self.planned.cell, cells)).tolist()}

    def files_by_place(self) -> Iterator[tuple[tuple[str, str], tuple[Path, ...], int]]:
        """Yield every platform and toolchain with results, the files that these are in, and their number."""
        question = """
            WITH by_cell AS (SELECT cell, ordinal >> 32 AS position, count(*) AS results FROM results GROUP BY ALL)
            SELECT platform, toolchain, list(DISTINCT path), sum(results)::BIGINT
            FROM by_cell JOIN plan_cells USING (cell) JOIN sources USING (position) GROUP BY platform, toolchain
        """
        for platform, toolchain, paths, results in rows(self.connection, question):
            yield (platform, toolchain), tuple(map(Path, sorted(paths))), results

    @property
    def is_red(self) -> bool:
        """True if a case failed, is missing, or passes although it is expected to fail, or if an entry has ended."""
        return bool(self.ended) or not RED.isdisjoint(self.counts)

    @property
    def results(self) -> int:
        """The number of results that count."""
        return int(one(self.connection, "SELECT count(*) FROM cases JOIN sources USING (source) " + _COUNTS))

    @property
    def unplanned(self) -> int:
        """The number of results that belong to no planned case."""
        question = f"""
            SELECT count(*) FROM cases JOIN sources USING (source) {_COUNTS} AND {OF_CASES}
              AND record NOT IN (SELECT record FROM results)
        """
        return int(one(self.connection, question))

    @property
    def commits(self) -> set[str]:
        """The commits that the jobs name."""
        return {commit for facts in self.jobs.facts.values() if (commit := facts.get("commit"))}

    @property
    def devices(self) -> set[str]:
        """The devices on which something ran."""
        question = f"""
            SELECT DISTINCT job FROM cases JOIN sources USING (source) {_COUNTS} AND action IN ('run', 'emulate')
        """
        devices = {self.jobs[job].get("device", "none") for (job,) in rows(self.connection, question)}
        return devices - {"none"}

    @property
    def lanes_with_results(self) -> set[str]:
        """The lanes in which a machine tried at least one case."""
        question = "SELECT DISTINCT cell FROM taken WHERE outcome IN ('pass', 'fail', 'error')"
        tried = (self.planned.cells[cell] for (cell,) in rows(self.connection, question))
        return {f"{cell.platform}/{cell.target}/{cell.toolchain}" for cell in tried}

    @property
    def stale(self) -> Counter[str]:
        """The number of stale cases by reason, in the order in which the reasons first come."""
        question = """
            SELECT stale, count(*) FROM verdicts JOIN planned USING (planned) WHERE stale <> ''
            GROUP BY stale ORDER BY min((cell::BIGINT << 32) + planned)
        """
        return Counter(dict(rows(self.connection, question)))

    @property
    def jobs_in_order(self) -> list[int]:
        """The numbers of the jobs of deciding records, in the order in which the cells first name them."""
        question = "SELECT job FROM taken GROUP BY job ORDER BY min((cell::BIGINT << 32) + planned)"
        return [job for (job,) in rows(self.connection, question)]

    def seconds(self, most: int) -> dict[str, float]:
        """Return the seconds of the cases that ran or were compiled, by id; of more than ``most`` only some.

        Of several results of a case the longest time counts, as in :func:`kernel_matrix.results.history.measured`.
        """
        question = f"""
            WITH timed AS (
                SELECT "case", max(seconds) AS seconds FROM cases JOIN sources USING (source)
                {_COUNTS} AND action <> '' AND seconds > 0 AND isfinite(seconds) GROUP BY "case"
            )
            SELECT * FROM timed  -- a hash is a UBIGINT: beside another type it would be divided as a HUGEINT
            WHERE hash("case") % greatest(1::UBIGINT, (SELECT ceil(count(*) / {most})::UBIGINT FROM timed)) = 0
        """
        return dict(rows(self.connection, question))

    def records(self, numbers: Collection[int]) -> dict[int, Record]:
        """Return records without the figures of their outputs, by number."""
        return records_of(self.connection, numbers, self.jobs, outputs=False)

    def probes(self) -> list[Record]:
        """Return the records of probes."""
        return self._named(PROBE)

    def benchmark(self) -> list[Record]:
        """Return the records of the benchmark."""
        return self._named(BENCH)

    def _named(self, prefix: str) -> list[Record]:
        question = f"""
            SELECT record FROM cases JOIN sources USING (source) {_COUNTS} AND starts_with("case", '{prefix}')
            ORDER BY position, record
        """
        numbers = [number for (number,) in rows(self.connection, question)]
        found = records_of(self.connection, numbers, self.jobs)
        return [found[number] for number in numbers]

    def states_of_expected(self) -> dict[str, State]:
        """Return the states of the cases with an expectation, by id."""
        return states_of_expected(self.connection, self.planned)

    def sampled(self) -> Iterator[tuple[Case, Record]]:
        """Yield what :func:`kernel_matrix.results.agreement.agreement` compares."""
        return self.loaded.samples.deciding(self.connection, self.planned, self.jobs)

    def red(self, most: int) -> list[Verdict]:
        """Return the first red cases in the order of the cells, as objects."""
        names = ", ".join(f"'{state}'" for state in sorted(RED))
        question = f"""
            SELECT planned, state, evidence, reason, record, stale FROM verdicts JOIN planned USING (planned)
            WHERE state IN ({names}) ORDER BY cell, planned LIMIT {most}
        """
        found = rows(self.connection, question)
        records = self.records([record for *_, record, _ in found if record is not None])
        return [
            Verdict(self.planned.case(number), state, evidence, reason, records.get(record), stale)
            for number, state, evidence, reason, record, stale in found
        ]


def states_of_expected(connection: Connection, planned: Planned) -> dict[str, State]:
    """Return the states of the cases with an expectation, by id."""
    question = "SELECT planned, state FROM verdicts JOIN planned USING (planned) WHERE rules >= 0"
    return {planned.case(number).id: state for number, state in rows(connection, question)}


_COUNTS = "WHERE position IS NOT NULL"
