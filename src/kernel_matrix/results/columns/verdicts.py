"""Plan and tables -> the table of verdicts. SQL judges most cases, and the functions of compare.py the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.until import over_on, over_with
from kernel_matrix.results import place
from kernel_matrix.results.canaries import CAUGHT, INJECTED, MISSED, faults_of_jobs
from kernel_matrix.results.columns import judging
from kernel_matrix.results.columns.common import find_common_figures
from kernel_matrix.results.columns.plan_tables import enter_plan, enter_stale_jobs
from kernel_matrix.results.columns.planned import Planned
from kernel_matrix.results.columns.proven import prove_figures
from kernel_matrix.results.columns.records import OF_CASES, Jobs, records_of
from kernel_matrix.results.columns.schema import COMMON
from kernel_matrix.results.columns.sql import Connection, enter, rows, temporary
from kernel_matrix.results.common_figures import CommonFigures
from kernel_matrix.results.compare import Others, ending_of_excluded, state_of
from kernel_matrix.results.deciding import CommonInputs, Dated, inputs_key
from kernel_matrix.results.present import Present
from kernel_matrix.results.record import Record, versions_of

_AT_ONCE = 5_000  # records that are made objects of at one time
_Answer = tuple[str, str, str]  # state, evidence, reason


def judge(connection: Connection, planned: Planned, present: Present | None = None) -> None:
    """Make the table ``verdicts`` of the present sources: one row for each case of the plan. Make ``taken`` of it.

    Its columns are ``planned`` (the number of the case), ``state``, ``evidence``, ``reason``, ``stale`` (the reason, or
    empty) and ``record`` (the number of the deciding record, or null). With ``present``, say which results are stale,
    and take no expectation whose last day has passed then.
    """
    jobs = Jobs(connection)
    today = present.now.date() if present else None
    enter_plan(connection, planned)
    judging.number_results(connection)
    enter_stale_jobs(connection, present, jobs)
    judging.say_which_are_stale(connection)
    judging.find_common_inputs(connection)
    judging.refuse_other_inputs(connection)
    find_common_figures(connection)
    judging.find_faulty_jobs(connection)
    faults = _faults_of_jobs(connection, planned, jobs)
    judging.choose_deciding(connection)
    prove_figures(connection)
    _find_misplaced(connection, planned, jobs)
    _find_holding_rules(connection, planned, jobs, today)
    judging.decide(connection)
    _replace(connection, _Doubtful(connection, planned, jobs, faults, today).answers())
    connection.execute("DROP TABLE decided").fetchall()
    _take_records(connection)


def _take_records(connection: Connection) -> None:
    """Make ``taken``: the records that the verdicts name, with the cell of each and what is asked of many at once."""
    temporary(
        connection,
        "taken",
        """
        SELECT v.planned, p.cell, v.state, c.record, c.job, c.outcome, c.action, c.seconds, c.kind, c.injected, c.caught
        FROM verdicts v JOIN planned p USING (planned) JOIN cases c USING (record)
        """,
    )


def _faults_of_jobs(connection: Connection, planned: Planned, jobs: Jobs) -> dict[int, str]:
    """Make ``faulty_jobs``, and return why the comparison of each is not trusted."""
    faults: dict[int, str] = {}
    temporary(
        connection,
        "of_doubtful_jobs",
        f"""
        SELECT cases.job, record, planned, "case", cases.outcome, cases.action, cases.injected, caught, missed
        FROM cases SEMI JOIN doubtful_jobs USING (job) LEFT JOIN accepted USING (record) WHERE {OF_CASES}
        """,
    )
    question = """
        SELECT planned, "case", outcome, action, injected, caught, missed FROM of_doubtful_jobs WHERE job = ?
        ORDER BY record
    """
    for (job,) in rows(connection, "SELECT job FROM doubtful_jobs ORDER BY job"):
        numbers: set[int] = set()
        accepted: dict[str, list[Record]] = {}
        records: list[Record] = []
        for number, case, outcome, action, injected, caught, missed in rows(connection, question, [job]):
            metrics = {k: v for k, v in ((INJECTED, injected), (CAUGHT, caught)) if v is not None}
            facts = {MISSED: missed} if missed is not None else {}
            records.append(Record(case, outcome, action, metrics=metrics, facts=facts, job=jobs[job]))
            if number is not None:
                numbers.add(number)
                accepted.setdefault(case, []).append(records[-1])
        if fault := faults_of_jobs(map(planned.case, sorted(numbers)), accepted, records).get(id(jobs[job])):
            faults[job] = fault
    schema = pa.schema({"job": pa.int64(), "fault": pa.string()})
    enter(connection, "faulty_jobs", schema, {"job": list(faults), "fault": list(faults.values())})
    return faults


def _find_misplaced(connection: Connection, planned: Planned, jobs: Jobs) -> None:
    """Make ``misplaced``: the jobs that cannot have run a case of a cell, although a deciding result says so."""
    question = """
        SELECT job, cell, action, any_value(planned) FROM deciding
        WHERE outcome = 'pass' AND action IN ('run', 'emulate') GROUP BY ALL
    """
    found = [
        (job, cell, action)
        for job, cell, action, number in rows(connection, question)
        if place.misplaced(planned.case(number), Record("", "pass", action, job=jobs[job]))
    ]
    schema = pa.schema({"job": pa.int64(), "cell": pa.int32(), "action": pa.string()})
    enter(connection, "misplaced", schema, {name: [row[i] for row in found] for i, name in enumerate(schema.names)})


def _find_holding_rules(connection: Connection, planned: Planned, jobs: Jobs, today: date | None) -> None:
    """Make ``holding_rules``: the expectations, and the jobs whose versions some of them are for.

    ``reason`` is that of the first expectation that is not over; null if all are.
    """
    holding = []
    for rules, job in rows(
        connection, "SELECT DISTINCT rules, job FROM deciding JOIN planned USING (planned) WHERE rules >= 0"
    ):
        versions = versions_of(jobs[job])
        hold = [rule for rule in planned.expectations[rules] if satisfies(rule.versions, versions)]
        expected = [
            rule.reason
            for rule in hold
            if not over_with(rule.until, versions) and not (today and over_on(rule.until, today))
        ]
        if hold:
            holding.append((rules, job, expected[0] if expected else None))
    schema = pa.schema({"rules": pa.int32(), "job": pa.int64(), "reason": pa.string()})
    columns = {name: [row[place] for row in holding] for place, name in enumerate(schema.names)}
    enter(connection, "holding_rules", schema, columns)


class _Doubtful:
    """Judge the cases that SQL leaves, by the functions of compare.py."""

    def __init__(
        self, connection: Connection, planned: Planned, jobs: Jobs, faults: dict[int, str], today: date | None
    ) -> None:
        self._connection, self._planned, self._jobs, self._today = connection, planned, jobs, today
        self._faults = {id(jobs[job]): fault for job, fault in faults.items()}
        self._known: dict[tuple[Any, ...], _Answer] = {}

    def answers(self) -> Iterator[tuple[int, int | None, _Answer]]:
        """Yield the number of a case, the record to name, and the answer."""
        yield from self._excluded()
        yield from self._refused()
        yield from self._wrong()
        yield from self._passed()

    def _excluded(self) -> Iterator[tuple[int, int | None, _Answer]]:
        """Judge the excluded cases that were tried all the same."""
        question = """
            SELECT planned, r.outcome, c.message FROM decided v JOIN results r USING (planned)
            JOIN cases c ON c.record = r.record JOIN planned p USING (planned)
            WHERE NOT certain AND p.exclusion >= 0 ORDER BY planned, r.ordinal
        """
        tried: dict[int, list[Dated]] = {}
        for number, outcome, message in rows(self._connection, question):
            tried.setdefault(number, []).append(Dated(Record("", outcome, message=message)))
        for number, records in tried.items():
            exclusion = self._planned.exclusions[self._planned.exclusion[number]]
            yield number, None, ("excluded", "planned", f"{exclusion.reason}{ending_of_excluded(records)}")

    def _refused(self) -> Iterator[tuple[int, int | None, _Answer]]:
        """Judge the cases of which every record had other inputs. The first one is named."""
        question = """
            SELECT v.planned, arg_min(r.record, r.ordinal), arg_min(r.digest, r.ordinal), any_value(i.digest)
            FROM decided v JOIN results r USING (planned) JOIN planned p USING (planned)
            JOIN common_inputs i USING (key)
            WHERE NOT certain AND p.exclusion < 0 AND v.record IS NULL GROUP BY v.planned
        """
        for number, first, digest, common in rows(self._connection, question):
            case = self._planned.case(number)
            record = Record(case.id, "pass", facts={"inputs.sha256": digest})
            reason = CommonInputs({inputs_key(case): common}).refuse(case, record)
            yield number, first, ("missing", "planned", reason)

    def _wrong(self) -> Iterator[tuple[int, int | None, _Answer]]:
        """Judge what did not pass and is perhaps expected to. Equal texts of a job are judged once."""
        question = """
            SELECT v.planned, v.record, p.rules, d.job, d.outcome, d.action, c.stage, c.message, c.detail, d.kind,
                   d.bytes, w.asserted,
                   w.asserted AND (d.elements IS NOT NULL OR EXISTS (FROM outputs o WHERE o.record = d.record))
            FROM decided v JOIN planned p USING (planned) JOIN deciding d USING (planned)
            JOIN plan_owed w ON w.owed = d.owed
            JOIN cases c ON c.record = d.record
            WHERE NOT certain AND p.exclusion < 0 AND d.outcome <> 'pass'
        """
        for number, record, *key in rows(self._connection, question):
            yield number, record, self._answer_of(number, tuple(key))

    def _answer_of(self, number: int, key: tuple[Any, ...]) -> _Answer:
        if key not in self._known:
            # A test of a suite is judged in another way, so `asserted` is a part of the key.
            _, job, outcome, action, stage, message, detail, kind, size, _, compared = key
            facts = {"artifact.kind": kind} if kind else {}
            metrics = {"artifact.bytes": size} if size else {}
            metrics |= {"elements": 1.0} if compared else {}  # what a test of a suite reached depends on whether it did
            record = Record(
                "", outcome, action, stage, message, detail, metrics=metrics, facts=facts, job=self._jobs[job]
            )
            self._known[key] = state_of(self._planned.case(number), record, "", self._today)
        return self._known[key]

    def _passed(self) -> Iterator[tuple[int, int | None, _Answer]]:
        """Judge what says that it passed, and is doubted or expected to fail."""
        question = """
            SELECT v.planned, v.record, d.stale > 0, d.key FROM decided v JOIN planned p USING (planned)
            JOIN deciding d USING (planned) WHERE NOT certain AND p.exclusion < 0 AND d.outcome = 'pass'
            ORDER BY v.planned
        """
        passed = rows(self._connection, question)
        for first in range(0, len(passed), _AT_ONCE):
            part = passed[first : first + _AT_ONCE]
            records = records_of(self._connection, [record for _, record, *_ in part], self._jobs)
            others = Others(CommonInputs(), self._common_figures(part), self._faults)
            for number, record, is_stale, _ in part:
                case, one = self._planned.case(number), records[record]
                answer = state_of(case, one, "", self._today)
                # A result that proves nothing by itself is an error for that reason, whatever the others say.
                if answer[0] != "error" and (doubt := others.doubt(case, Dated(one, "stale" if is_stale else ""))):
                    answer = state_of(case, one, doubt, self._today)
                yield number, record, answer

    def _common_figures(self, part: Sequence[tuple[int, int, bool, int]]) -> CommonFigures:
        """Return the common figures of the names of some cases."""
        keys = {key: inputs_key(self._planned.case(number)) for number, _, _, key in part}
        question = f"""
            SELECT key, name, is_stale, {", ".join(COMMON)} FROM common_figures
            WHERE key IN (SELECT unnest($1::INTEGER[]))
        """
        return CommonFigures(
            {
                (keys[key], name, is_stale): dict(zip(COMMON, figures, strict=True))
                for key, name, is_stale, *figures in rows(self._connection, question, [list(keys)])
            }
        )


def _replace(connection: Connection, answers: Iterator[tuple[int, int | None, _Answer]]) -> None:
    """Make ``verdicts`` of ``decided`` with the answers, and the reasons why results are stale as text."""
    entered = [(number, record, *answer) for number, record, answer in answers]
    schema = pa.schema(
        {
            "planned": pa.int32(),
            "record": pa.int64(),
            "state": pa.string(),
            "evidence": pa.string(),
            "reason": pa.string(),
        }
    )
    columns = {name: [row[place] for row in entered] for place, name in enumerate(schema.names)}
    enter(connection, "answers", schema, columns)
    temporary(
        connection,
        "verdicts",
        """
        SELECT planned, coalesce(a.state, v.state) AS state, coalesce(a.evidence, v.evidence) AS evidence,
               coalesce(a.reason, v.reason) AS reason,
               CASE WHEN v.record IS NULL OR (a.planned IS NOT NULL AND a.record IS NULL) THEN ''
                    ELSE s.text END AS stale,
               CASE WHEN a.planned IS NULL THEN v.record ELSE a.record END AS record
        FROM decided v LEFT JOIN answers a USING (planned) JOIN stale_reasons s USING (stale)
        """,
    )
