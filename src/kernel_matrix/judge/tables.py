"""The small tables of the judge that SQL cannot make: each has one row for a job, or for a distinct text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa

from kernel_matrix.base.patterns import is_found
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.plan import Cell
from kernel_matrix.config.until import over_on, over_with
from kernel_matrix.judge.plan_tables import KEY, NUMBER, TEXT, enter_rows
from kernel_matrix.judge.reasons import sentence
from kernel_matrix.results.plan_columns import Planned
from kernel_matrix.results.present import Present
from kernel_matrix.store.database import Connection, rows
from kernel_matrix.store.record import Record, versions_of
from kernel_matrix.store.records import Jobs
from kernel_matrix.vendors.registry import vendor_named

REASON = pa.struct([("code", TEXT), ("arguments", pa.list_(TEXT))])
_Fault = tuple[str, list[str]]  # a code with its arguments


def enter_stale_jobs(connection: Connection, present: Present | None, jobs: Jobs) -> None:
    """Make ``stale_jobs``, and ``stale_reasons``, whose first text is empty: for results that are not stale."""
    reasons = {"": 0}
    pairs = rows(connection, "SELECT DISTINCT job, platform, toolchain FROM results JOIN plan_cells USING (cell)")
    stale = []
    for job, platform, toolchain in pairs if present else ():
        place = platform, toolchain, jobs[job]
        of_job = [present.stale(*place, versions=asked) for asked in (True, False)] if present else ()
        stale.append((job, platform, toolchain, *(reasons.setdefault(reason, len(reasons)) for reason in of_job)))
    schema = {"job": KEY, "platform": TEXT, "toolchain": TEXT, "reason": NUMBER, "without_versions": NUMBER}
    enter_rows(connection, "stale_jobs", schema, stale)
    enter_rows(connection, "stale_reasons", {"stale": NUMBER, "text": TEXT}, [(n, t) for t, n in reasons.items()])


def enter_misplaced(connection: Connection, planned: Planned, jobs: Jobs) -> None:
    """Make ``misplaced``: the jobs that cannot have run a case of a cell, although a deciding result says so."""
    question = """
        SELECT DISTINCT job, cell, action FROM deciding WHERE outcome = 'pass' AND action <> ''
    """
    found = []
    for job, cell, action in rows(connection, question):
        fault = next(_misplaced(planned.cells[cell], action, jobs[job]), None)
        if fault:
            found.append((job, cell, action, dict(zip(("code", "arguments"), fault, strict=True))))
    schema = {"job": KEY, "cell": NUMBER, "action": TEXT, "fault": REASON}
    enter_rows(connection, "misplaced", schema, found)


def _misplaced(cell: Cell, action: str, job: dict[str, str]) -> Iterator[_Fault]:
    """Yield why a job cannot have run, emulated or compiled a case of a cell."""
    lane = f"{cell.platform}.{cell.toolchain}"
    if not f"{job.get('job') or lane}.".startswith(f"{lane}."):  # the name of a shard has a word more
        yield "other_place", ["name", job["job"], lane]
    if action == "compile":  # any machine may, for any target
        return
    stood_in = (cell.action, action) == ("run", "emulate") and cell.target in vendor_named(cell.vendor).stood_in_for
    if action != cell.action and not stood_in:
        yield "other_action", [action, cell.action]
    for name, wanted in (("platform", cell.platform), ("toolchain", cell.toolchain), ("device.vendor", cell.vendor)):
        if (given := job.get(name, "")) != wanted:
            yield "other_place", [name, given, wanted]
    if cell.target not in job.get("device.targets", "").split():
        yield "other_target", [job.get("device.targets", ""), cell.target]


def enter_rules(connection: Connection, planned: Planned, jobs: Jobs, today: date | None) -> None:
    """Make ``holding_rules`` and ``matching_rules``.

    The first has the expectations that hold for the versions of a deciding result's job, and whether they are over on a
    day. The second has those whose pattern is found in the text of a result that did not pass.
    """
    pairs = "SELECT DISTINCT rules, job FROM deciding JOIN planned USING (planned) WHERE rules >= 0"
    held = []
    for rules, job in rows(connection, pairs):
        versions = versions_of(jobs[job])
        for index, rule in enumerate(planned.expectations[rules]):
            if satisfies(rule.versions, versions):
                is_over = over_with(rule.until, versions) or (today is not None and over_on(rule.until, today))
                held.append((rules, index, job, is_over))
    schema = {"rules": NUMBER, "place": NUMBER, "job": KEY, "is_over": pa.bool_()}
    enter_rows(connection, "holding_rules", schema, held)
    texts = """
        SELECT rules, message, detail, list(record) FROM deciding d JOIN planned USING (planned)
        JOIN (SELECT record, message, detail FROM cases) USING (record)
        WHERE rules >= 0 AND d.outcome IN ('fail', 'error') GROUP BY rules, message, detail
    """
    matched: list[tuple[int, int]] = []
    for rules, message, detail, records in rows(connection, texts):
        text = Record("", "error", message=message, detail=detail).text
        for index, rule in enumerate(planned.expectations[rules]):
            if is_found(rule.match, text):
                matched += [(record, index) for record in records]
    enter_rows(connection, "matching_rules", {"record": KEY, "place": NUMBER}, matched)


def enter_sentences(connection: Connection) -> None:
    """Make ``sentences``: the sentence of each reason whose only argument is not the sentence already."""
    question = """
        SELECT DISTINCT reason.code, reason.arguments FROM answers WHERE reason.code NOT IN ('', 'says')
    """
    made = [(code, arguments, sentence(code, arguments)) for code, arguments in rows(connection, question)]
    schema = {"code": TEXT, "arguments": pa.list_(TEXT), "sentence": TEXT}
    enter_rows(connection, "sentences", schema, made)
