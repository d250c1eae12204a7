"""Results in the database, judged: what a report asks of them except the figures of cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from kernel_matrix.base.words import counted
from kernel_matrix.config.plan import Case
from kernel_matrix.config.rule_state import RuleState
from kernel_matrix.job.suite_canaries.asking import FACT
from kernel_matrix.results.noise import Noise, noise_of_cells
from kernel_matrix.results.plan_columns import Planned
from kernel_matrix.results.present import Present, start_of
from kernel_matrix.results.states import NO_RESULT, RED, RED_FIRST, STATES, TRIED, State, Verdict
from kernel_matrix.store.database import Connection, enter, one, rows
from kernel_matrix.store.load import Loaded
from kernel_matrix.store.record import BENCH, PROBE, TOLD_BY, Record
from kernel_matrix.store.records import OF_CASES, Jobs, records_of


@dataclass(frozen=True)
class Judged:
    """The verdicts of a plan in a database that is open, and what could not be compared (a sentence each).

    ``not_taken`` has a sentence for each file with results of other tools that are of no planned case. ``ended`` has
    the expectations and exclusions that are over, that match nothing, or whose cases no longer fail. ``where`` is a
    condition in SQL that chooses cases: the counts, the verdicts and what is red concern these cases only.
    ``in_journal`` has the states of the cases of jobs that have not ended, by cell and case name.
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
    where: str = "true"
    in_journal: Mapping[str, Mapping[str, State]] = field(default_factory=dict)

    def narrowed(self, cases: Iterable[Case]) -> Judged:
        """Return the same results, with only some cases of the plan asked for."""
        ids = {case.id for case in cases}
        numbers = [number for number in range(len(self.planned.cell)) if self.planned.case(number).id in ids]
        enter(self.connection, "asked", pa.schema({"planned": pa.int32()}), {"planned": numbers})
        return replace(self, where="planned IN (FROM asked)")

    @cached_property
    def counts(self) -> dict[State, int]:
        """The number of cases by state, worst first."""
        question = f"SELECT state, count(*) FROM verdicts WHERE {self.where} GROUP BY state"
        counted = dict(rows(self.connection, question))
        return {state: counted[state] for state in STATES if state in counted}

    @property
    def emulated(self) -> int:
        """The number of cases that an emulator or an interpreter ran."""
        states = ", ".join(f"'{state}'" for state in TRIED)
        question = f"""
            SELECT count(*) FROM verdicts JOIN taken USING (planned)
            WHERE action = 'emulate' AND verdicts.state IN ({states}) AND {self.where}
        """
        return int(one(self.connection, question))

    @property
    def has_run(self) -> bool:
        """True if a case ran on a device, however it ended."""
        question = f"""
            SELECT count(*) FROM verdicts LEFT JOIN taken USING (planned) LEFT JOIN cases c ON c.record = taken.record
            WHERE (evidence = 'ran' OR (taken.action = 'run' AND (evidence = 'held' OR stage IN ({_BEGUN}))))
              AND {self.where}
        """
        return bool(one(self.connection, question))

    def reasons(self, state: State) -> Counter[str]:
        """Return the reasons of the cases in a state with their numbers, in the order in which they first come."""
        question = f"""
            SELECT reason, count(*) FROM verdicts JOIN planned USING (planned) WHERE state = ? AND {self.where}
            GROUP BY reason ORDER BY min((cell::BIGINT << 32) + planned)
        """
        return Counter(dict(rows(self.connection, question, [state])))

    def checks(self) -> list[tuple[str, int]]:
        """Return the checks that cases of described operators had and passed, in words, the most frequent first."""
        question = f"""
            SELECT c.facts['checks'] AS made, count(*) AS cases
            FROM taken t JOIN cases c USING (record) JOIN planned USING (planned)
            WHERE t.state = 'pass' AND coalesce(c.facts['checks'], '') <> '' AND {self.where}
            GROUP BY made ORDER BY cases DESC, made
        """
        return rows(self.connection, question)

    def comparisons(self) -> list[str]:
        """Return what the lines of a suite see of known faults, as each of its tests says it."""
        question = f"""
            SELECT c.facts['{FACT}'] FROM taken t JOIN cases c USING (record) JOIN planned USING (planned)
            WHERE coalesce(c.facts['{FACT}'], '') <> '' AND {self.where}
        """
        return [fact for (fact,) in rows(self.connection, question)]

    @property
    def unseen(self) -> int:
        """The number of cases that held and in which no comparison of the suite was seen."""
        question = f"""
            SELECT count(*) FROM verdicts JOIN cases c USING (record)
            WHERE verdicts.state = 'held' AND coalesce(c.facts['{FACT}'], '') = '' AND {self.where}
        """
        return int(one(self.connection, question))

    def noise(self) -> dict[str, dict[str, dict[str, Noise]]]:
        """Return the noise by the id of the cell, dtype and output."""
        noise = noise_of_cells(self.connection, self.where)
        return {self.planned.cells[cell].id: of_cell for cell, of_cell in noise.items()}

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
    def is_empty(self) -> bool:
        """True if no case that was asked for has a result. Such a run is no success, although nothing of it is red."""
        return not self.counts.keys() - NO_RESULT

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
    def canaries(self) -> tuple[int, int]:
        """The numbers of the faults that were put into all results, and of those that the comparison found."""
        question = f"""
            SELECT coalesce(sum(trunc(injected)), 0)::BIGINT, coalesce(sum(trunc(caught)), 0)::BIGINT
            FROM cases JOIN sources USING (source) {_COUNTS}
        """
        ((injected, caught),) = rows(self.connection, question)
        return injected, caught

    @property
    def commits(self) -> set[str]:
        """The commits that the jobs name."""
        return {
            commit for facts in self.jobs.facts.values() if (commit := facts.get("commit")) and TOLD_BY not in facts
        }

    @property
    def devices(self) -> set[str]:
        """The devices on which something ran."""
        question = f"""
            SELECT DISTINCT job FROM cases JOIN sources USING (source) {_COUNTS} AND action IN ('run', 'emulate')
        """
        devices = {self.jobs[job].get("device", "none") for (job,) in rows(self.connection, question)}
        return devices - {"none"}

    def tried_in_lanes(self, now: datetime) -> Iterator[tuple[str, str, datetime]]:
        """Yield the lanes in which a machine tried a case, each with what a job did, and when the job started.

        A job that does not say when it started, or says a time after ``now``, shows no sign of life.
        """
        question = """
            SELECT DISTINCT platform || '/' || target || '/' || toolchain, action, job
            FROM results JOIN plan_cells USING (cell) WHERE outcome IN ('pass', 'fail', 'error')
        """
        for lane, action, job in rows(self.connection, question):
            if started := start_of(self.jobs[job], now):
                yield lane, action, started

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

    def tried(self) -> list[Record]:
        """Return all results of the cases, also those that decide nothing, with their samples."""
        found = rows(self.connection, f"SELECT record FROM results WHERE {self.where} ORDER BY ordinal")
        return self.loaded.records(self.connection, [number for (number,) in found], self.jobs)

    def records(self, condition: str = "true") -> list[Record]:
        """Return all results that count and meet a condition in SQL, whole."""
        question = f"SELECT record FROM cases JOIN sources USING (source) {_COUNTS} AND {condition}"
        numbers = [number for (number,) in rows(self.connection, f"{question} ORDER BY position, record")]
        return self.loaded.records(self.connection, numbers, self.jobs)

    def of_cases(self) -> list[Record]:
        """Return all records of cases, planned or not."""
        return self.records(OF_CASES)

    def probes(self) -> list[Record]:
        """Return the records of probes."""
        return self.records(f"""starts_with("case", '{PROBE}')""")

    def benchmark(self) -> list[Record]:
        """Return the records of the benchmark."""
        return self.records(f"""starts_with("case", '{BENCH}')""")

    def sampled(self) -> Iterator[tuple[Case, Record]]:
        """Yield what :func:`kernel_matrix.results.agreement.agreement` compares."""
        found = rows(self.connection, _DECIDING) if self.loaded.samples else []
        sampled = {
            record: case
            for number, record, job in found
            if self.loaded.samples.find(self.jobs.run(job), (case := self.planned.case(number)).id)
        }
        yield from zip(sampled.values(), self.loaded.records(self.connection, [*sampled], self.jobs), strict=True)
        # One record of each lane without samples is counted, and never compared.
        lanes = {record: number for number, record in rows(self.connection, _WITHOUT_SAMPLES, [[*sampled]])}
        records = records_of(self.connection, lanes, self.jobs, outputs=False)
        for record, number in lanes.items():
            yield self.planned.case(number), records[record]

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts as objects, in the order of the cells."""
        return self._verdicts(self.where)

    def red(self, most: int | None = None) -> list[Verdict]:
        """Return the first red cases in the order of the cells, as objects without the figures of outputs."""
        return self._verdicts(f"{_IS_RED} AND {self.where}", "" if most is None else f"LIMIT {most}", outputs=False)

    def red_by_cell(self, most: int) -> list[tuple[int, int, list[Verdict]]]:
        """Return, for each cell with red cases, in the order of the plan, their number, how many of them are red in no
        table, and some of them: the first that failed and the first error, and then the worst.
        """
        question = f"""
            SELECT cell, count(*), count(*) FILTER (outcome IS NULL OR outcome NOT IN ('fail', 'error', 'missing'))
            FROM verdicts JOIN planned USING (planned) LEFT JOIN cases USING (record)
            WHERE {_IS_RED} AND {self.where} GROUP BY cell ORDER BY cell
        """
        numbers = rows(self.connection, question)
        order = f"nth > 1 OR state = 'missing', {_WORST_FIRST}, planned"
        first = f"""
            planned IN (
                SELECT planned FROM (
                    SELECT planned, cell, state, row_number() OVER (PARTITION BY cell, state ORDER BY planned) AS nth
                    FROM verdicts JOIN planned USING (planned) WHERE {_IS_RED} AND {self.where}
                )
                QUALIFY row_number() OVER (PARTITION BY cell ORDER BY {order}) <= {most}
            )
        """
        verdicts = self._verdicts(first)
        groups = [list(group) for _, group in groupby(verdicts, lambda verdict: verdict.case.cell)]
        return [(count, unsaid, group) for (_, count, unsaid), group in zip(numbers, groups, strict=True)]

    def _verdicts(self, where: str, limit: str = "", *, outputs: bool = True) -> list[Verdict]:
        question = f"""
            SELECT planned, state, evidence, reason, record, stale FROM verdicts JOIN planned USING (planned)
            WHERE {where} ORDER BY cell, planned {limit}
        """
        found = rows(self.connection, question)
        numbers = [record for *_, record, _ in found if record is not None]
        records = records_of(self.connection, numbers, self.jobs, outputs=outputs)
        return [
            Verdict(self.planned.case(number), state, evidence, reason, records.get(record), stale)
            for number, state, evidence, reason, record, stale in found
        ]


def set_aside(connection: Connection, planned: Planned) -> dict[str, dict[str, State]]:
    """Make the cases missing that a provisional result decides, and return their states by cell and case name.

    The results of a job are judged together, so a case counts when its job has ended.
    """
    question = """
        SELECT planned, state FROM verdicts JOIN cases USING (record) JOIN sources USING (source)
        WHERE path = ? ORDER BY planned
    """
    states: dict[str, dict[str, State]] = {}
    found = rows(connection, question, [PROVISIONAL])
    for number, state in found:
        case = planned.case(number)
        states.setdefault(case.cell.id, {})[case.name] = state
    enter(connection, "provisional", pa.schema({"planned": pa.int32()}), {"planned": [number for number, _ in found]})
    for change in (
        """
        UPDATE verdicts SET state = 'missing', evidence = 'planned', stale = '', reason = 'The journal of its job says '
            || state || '. It counts when the job has ended, because the results of a job are judged together.'
        WHERE planned IN (FROM provisional)
        """,
        # Their figures count in no sum of a cell.
        "DELETE FROM outputs WHERE record IN (SELECT record FROM taken SEMI JOIN provisional USING (planned))",
        """
        UPDATE cases SET figures = MAP {}
        WHERE record IN (SELECT record FROM taken SEMI JOIN provisional USING (planned))
        """,
        """
        UPDATE taken SET state = 'missing', outcome = 'missing', kind = '', injected = NULL, caught = NULL
        WHERE planned IN (FROM provisional)
        """,
    ):
        connection.execute(change).fetchall()
    return states


def told_notes(connection: Connection) -> Iterator[str]:
    """Yield a sentence for what each person has run: how it ended, and where their word stands."""
    told = rows(connection, "FROM told LIMIT 1")
    for by, key, at, device, commit, cases, states, stands in rows(connection, _TOLD) if told else ():
        ended = ", ".join(f"{states[state]} {state}" for state in STATES if state in states)
        yield (
            f"{by} (key {key}, signed {at}) sent {counted(cases, 'case')} of {device} at commit {commit}: {ended}. "
            f"This word stands in {stands} of them; it counts in no figure of the project."
        )


def states_of_expected(connection: Connection, planned: Planned) -> dict[str, State]:
    """Return the states of the cases with an expectation, by id."""
    question = "SELECT planned, state FROM verdicts JOIN planned USING (planned) WHERE rules >= 0"
    return {planned.case(number).id: state for number, state in rows(connection, question)}


PROVISIONAL = "journals of jobs that have not ended"  # the name of their source
_TOLD = """
    SELECT job['told.by'], job['told.key'], job['told.at'][:10], job['device'], job['commit'], count(*),
           histogram(t.state), count(*) FILTER (v.state = 'told')
    FROM told_results t JOIN verdicts v USING (planned) GROUP BY ALL ORDER BY ALL
"""
_DECIDING = """
    SELECT planned, record, job FROM verdicts JOIN planned USING (planned) JOIN cases USING (record)
    WHERE action IN ('run', 'emulate') AND state <> 'told' ORDER BY cell, planned
"""
_WITHOUT_SAMPLES = """
    WITH in_order AS (SELECT *, (cell::BIGINT << 32) + planned AS place FROM taken JOIN plan_cells USING (cell))
    SELECT arg_min(planned, place), arg_min(record, place) FROM in_order
    WHERE action IN ('run', 'emulate') AND outcome IN ('pass', 'fail') AND NOT list_contains($1::BIGINT[], record)
    GROUP BY platform, target, toolchain ORDER BY min(place)
"""
_BEGUN = "'launch', 'timeout', 'crash'"  # stages of a case that runs
_COUNTS = "WHERE position IS NOT NULL"
_RED_STATES = ", ".join(map(repr, RED_FIRST))
_IS_RED = f"state IN ({_RED_STATES})"
_WORST_FIRST = f"list_position([{_RED_STATES}], state)"
