"""The small tables of the judge that SQL cannot make: of jobs, of texts, of samples and of limits of code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

from kernel_matrix.base.patterns import is_found
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.model import Resource, as_list, has_values
from kernel_matrix.config.model.limits import FIGURES
from kernel_matrix.config.plan import Cell
from kernel_matrix.config.until import over_on, over_with
from kernel_matrix.judge.plan_tables import KEY, NUMBER, TEXT, enter_rows
from kernel_matrix.judge.reasons import sentence
from kernel_matrix.results.plan_columns import Planned
from kernel_matrix.results.present import Present
from kernel_matrix.results.ulp import stacked
from kernel_matrix.store.database import Connection, one, rows, run
from kernel_matrix.store.query import opened
from kernel_matrix.store.record import Record, Sample, versions_of
from kernel_matrix.store.records import Jobs
from kernel_matrix.store.sampled import Samples
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


_QUESTION = """
    SELECT record, a.job, "case", key, stale > 0, digest, output, max_abs, largest
    FROM accepted a JOIN (SELECT record, "case" FROM cases) USING (record) JOIN outputs USING (record)
    WHERE outcome = 'pass' AND action IN ('run', 'emulate') AND isfinite(max_abs) AND isfinite(largest)
      AND job IN (SELECT job FROM jobs WHERE list_contains($1::VARCHAR[], run))
    ORDER BY record, place
"""
_Member = tuple[int, str, Sample, float, float]  # a record, an output, its sample, its largest error and value


def enter_wrong_samples(connection: Connection, samples: Samples, jobs: Jobs) -> None:
    """Make ``wrong_samples``: the records that say they passed, and have samples that their largest error excludes.

    The golden is at most the largest error away from every element. So no element is larger than the golden's largest
    value by more than that, and where most other results say that the golden is below or above, it is there.
    """
    groups: dict[tuple[object, ...], list[_Member]] = defaultdict(list)
    for record, job, case, key, is_stale, digest, output, *figures in rows(connection, _QUESTION, [samples.runs]):
        if sample := samples.find(jobs.run(job), case).get(output):
            alone = "" if digest else record  # nobody knows whether the others had the same inputs
            form = sample.dtype, sample.shape
            groups[key, is_stale, digest, alone, output.partition("@")[0], *form].append(
                (record, output, sample, *figures)
            )
    wrong: dict[int, tuple[str, str]] = {}
    for members in groups.values():
        for record, *fault in _wrong(members):
            wrong.setdefault(record, (fault[0], fault[1]))
    found = [(record, {"code": code, "arguments": [output]}) for record, (code, output) in wrong.items()]
    enter_rows(connection, "wrong_samples", {"record": KEY, "fault": REASON}, found)


def _wrong(members: list[_Member]) -> list[tuple[int, str, str]]:
    """Return the records whose samples of an output cannot be, each with the code of the reason and the output."""
    records, outputs, samples, errors, largest = zip(*members, strict=True)
    values = stacked(samples).astype(np.float64)
    # A little for the rounding of the golden, which each machine computes.
    error = np.array(errors)[:, None] * (1 + 1e-6) + np.array(largest)[:, None] * 1e-9
    beyond = ~(np.abs(values) <= np.array(largest)[:, None] + error).all(axis=1)
    low, high = values - error, values + error
    first = [records.index(record) for record in dict.fromkeys(records)]  # the variants of a record have one voice
    if len(first) >= 3:
        half = (len(first) - 1) // 2
        most_high = np.sort(high[first], axis=0)[half]
        most_low = np.sort(low[first], axis=0)[-1 - half]
        far = ((low > most_high) | (high < most_low)).any(axis=1)
    else:
        far = np.zeros(len(members), bool)
    codes = np.where(beyond, "samples_cannot_be", np.where(far, "unusual_samples", ""))
    return [(record, str(code), output) for record, output, code in zip(records, outputs, codes, strict=True) if code]


_FIGURES = pa.map_(TEXT, pa.float64())
_LAST = """
    SELECT c."case", arg_max(c.figures, (j.started, j.run)) FROM cases AS c JOIN jobs AS j ON c.run = j.run
    WHERE c.outcome = 'pass' AND c.artifact_kind <> '' AND c.artifact_kind NOT LIKE '%-source'
    GROUP BY c."case"
"""
_WITH_CODE = """
    CREATE OR REPLACE TEMP VIEW with_code AS
    SELECT record FROM cases WHERE kind <> '' AND NOT ends_with(kind, '-source')
"""
# The folders of last values that code is held to: to read one takes long.
_ASKED = """
    SELECT DISTINCT l.last FROM resource_limits l JOIN resource_cells USING (entry) JOIN planned p USING (cell)
    JOIN accepted a ON a.planned = p.planned SEMI JOIN with_code c ON c.record = a.record
    WHERE l.last IS NOT NULL ORDER BY l.last
"""
_WORDS = {"shared": "bytes of shared memory", "stack": "bytes of stack", "code": "bytes"}


def enter_code_limits(connection: Connection, planned: Planned, entries: Sequence[Resource], root: Path) -> bool:
    """Enter the limits, and return whether any result has code; the folders of last values are below ``root``.

    Raises:
        UserError: a folder has no tables.
    """
    run(connection, _WITH_CODE)
    if not one(connection, "SELECT count(*) > 0 FROM with_code"):
        return False  # an earlier step has made an empty table
    limits = [
        (
            number,
            figure,
            _WORDS.get(figure, figure),
            [*keys],
            kind,
            value,
            entry.last if kind == "growth" else None,
        )
        for number, entry in enumerate(entries)
        for figure, keys in FIGURES.items()
        for kind, value in (("limit", entry.limits.get(figure)), ("growth", entry.growth))
        if value is not None
    ]
    schema = {
        "entry": NUMBER, "figure": TEXT, "words": TEXT, "keys": pa.list_(TEXT), "kind": TEXT, "value": pa.float64(),
        "last": TEXT,
    }  # fmt: skip
    enter_rows(connection, "resource_limits", schema, limits)
    _enter_cases(connection, planned, entries)
    last = []
    for (folder,) in rows(connection, _ASKED):
        with opened([root / folder]) as database:
            last += [(folder, *row) for row in database.connection.execute(_LAST).fetchall()]
    enter_rows(connection, "last_figures", {"last": TEXT, "id": TEXT, "figures": _FIGURES}, last)
    return True


def _enter_cases(connection: Connection, planned: Planned, entries: Sequence[Resource]) -> None:
    """Make the ``resource_cells`` and ``resource_names`` that the entries hold for."""
    cells, names = [], []
    facts = [cell.facts for cell in planned.cells]
    for number, entry in enumerate(entries):
        where = {key: values for key, values in entry.where.items() if facts and key not in facts[0]}
        of_cell = {key: as_list(values) for key, values in entry.where.items() if key not in where}
        cells += [(number, index) for index, parts in enumerate(facts) if has_values(parts, of_cell)]
        names += [(number, index) for index, named in enumerate(planned.names) if has_values(named.axes, where)]
    enter_rows(connection, "resource_cells", {"entry": NUMBER, "cell": NUMBER}, cells)
    enter_rows(connection, "resource_names", {"entry": NUMBER, "named": NUMBER}, names)
