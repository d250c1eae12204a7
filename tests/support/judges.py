"""Judge records that a test has made, and take all verdicts out of the database as plain values."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from kernel_matrix import judging
from kernel_matrix.audit import audit
from kernel_matrix.config.model import Matrix, Resource
from kernel_matrix.config.plan import Case, Cell, Job, Plan, outputs_not_named
from kernel_matrix.diagnosis import Rule
from kernel_matrix.diagnosis.rule import harness_rules
from kernel_matrix.judge import verdicts
from kernel_matrix.pipeline import Project
from kernel_matrix.report import site as sites
from kernel_matrix.report.cells import Sources, cell_states
from kernel_matrix.report.difference import difference
from kernel_matrix.report.document import Document
from kernel_matrix.report.make_document import document
from kernel_matrix.report.runs import read_site
from kernel_matrix.results.judged import Judged
from kernel_matrix.results.plan_columns import of_plan
from kernel_matrix.results.present import Present
from kernel_matrix.results.states import STATES, Verdict
from kernel_matrix.store.database import database
from kernel_matrix.store.load import Loaded
from kernel_matrix.store.record import Record
from kernel_matrix.store.records import Jobs, add_records
from kernel_matrix.store.sampled import Samples
from kernel_matrix.store.validation import Bounds


@dataclass(frozen=True)
class CellFound:
    """Hold a cell with the verdicts of its cases."""

    cell: Cell
    state: str
    evidence: str
    stale: str
    cases: tuple[Verdict, ...]

    @property
    def counts(self) -> dict[str, int]:
        return _counts(self.cases)


@dataclass(frozen=True)
class Found:
    """Hold all verdicts of some results."""

    cells: tuple[CellFound, ...]
    is_red: bool
    notes: tuple[str, ...]
    ended: tuple[object, ...]
    not_taken: tuple[str, ...]
    unplanned: int

    @property
    def verdicts(self) -> list[Verdict]:
        return [verdict for cell in self.cells for verdict in cell.cases]

    @property
    def counts(self) -> dict[str, int]:
        return _counts(self.verdicts)


def found(judged: Judged) -> Found:
    """Return all verdicts of results that were judged, by cell."""
    samples = {record.case: record.samples for record in judged.tried()}
    verdicts = [
        replace(verdict, record=replace(verdict.record, samples=samples[verdict.record.case]))
        if verdict.record
        else verdict
        for verdict in judged.verdicts()
    ]
    by_cell = {cell: tuple(group) for cell, group in groupby(verdicts, lambda verdict: verdict.case.cell)}
    cells = tuple(
        CellFound(cell, found.state, found.evidence, found.stale, by_cell[cell])
        for cell, found in zip(judged.planned.cells, cell_states(judged), strict=True)
    )
    return Found(cells, judged.is_red, judged.notes, judged.ended, judged.not_taken, judged.unplanned)


def judged_files(project: Project, planned: Plan, folders: Sequence[Path], now: datetime | None = None) -> Found:
    """Return all verdicts of the results in some folders."""
    with judging.judged(project, planned, folders, now=now) as results:
        return found(results)


def audited(project: Project, planned: Plan) -> list[str]:
    """Return the differences that the audit finds between the dashboard and the results of this machine."""
    asked = {case.id for case in planned.cases}
    return audit(project.site, [project.results], project.matrix, project.root, asked)


@contextlib.contextmanager
def judged(
    plan: Plan,
    records: Iterable[Record],
    present: Present | None = None,
    broken: Iterable[str] = (),
    resources: Sequence[Resource] = (),
    root: Path = Path(),
) -> Iterator[Judged]:
    """Judge records as if from one file, in a database of their own."""
    with database() as connection:
        records, samples, runs = [*records], Samples(Bounds()), {}
        for record in records:
            runs.setdefault(str(record.job), f"{len(runs):016x}")
        records = [replace(record, run=record.run or runs[str(record.job)]) for record in records]
        add_records(connection, "records of a test", records)
        samples.add(records)
        planned = of_plan(plan)
        jobs = Jobs(connection)
        verdicts.judge(connection, planned, jobs, present, samples, resources, root)
        loaded = Loaded((), tuple(broken), {}, (), samples)
        notes = outputs_not_named(plan)
        yield Judged(connection, planned, plan.package, plan.tier, loaded, jobs, notes, presence=present)


def compare(plan: Plan, records: Iterable[Record], present: Present | None = None, **limits: Any) -> Found:
    """Return all verdicts of records."""
    with judged(plan, records, present, **limits) as results:
        return found(results)


def judge(case: Case, records: Iterable[Record], present: Present | None = None, **limits: Any) -> Verdict:
    """Return the verdict of one case, where no other case is planned."""
    alone = Plan("package", "quick", (Job(case.cell.platform, case.cell.toolchain, (case,)),))
    [verdict] = compare(alone, records, present, **limits).verdicts
    return verdict


def judge_each(case: Case, results: Mapping[str, Sequence[Record]], **limits: Any) -> dict[str, Verdict]:
    """Return the verdict of each of several results of a case by its name, all judged at once.

    Each is a case and a job of its own, so that none counts for another.
    """
    cases = {name: replace(case, name=f"{case.name}-{number}") for number, name in enumerate(results)}
    records = [
        replace(record, case=record.case.replace(case.id, cases[name].id), job={**record.job, "of": name})
        for name, found in results.items()
        for record in found
    ]
    planned = Plan("package", "quick", (Job(case.cell.platform, case.cell.toolchain, (*cases.values(),)),))
    return dict(zip(results, compare(planned, records, **limits).verdicts, strict=True))


def make_document(
    matrix: Matrix, plan: Plan, records: Iterable[Record], present: Present | None = None, **others: Any
) -> Document:
    """Return the document of records."""
    with judged(plan, records, present) as results:
        return document(Sources(matrix, results), **others)


def write_site(
    matrix: Matrix,
    plan: Plan,
    records: Iterable[Record],
    folder: Path,
    *,
    present: Present | None = None,
    broken: Iterable[str] = (),
    against: Path | None = None,
    rules: tuple[Rule, ...] | None = None,
    **others: Any,
) -> Document:
    """Write the site of records and return its document; its summary is the difference from the site ``against``."""
    with judged(plan, records, present, broken, matrix.resources) as results:
        sources = Sources(matrix, results, lambda: rules or harness_rules())
        whole = document(sources, **others)
        changes = difference(read_site(against).outline, whole) if against else None
        sites.write(whole, sources, folder, earlier=others.get("earlier"), difference=changes)
    return whole


def _counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counted = Counter(verdict.state for verdict in verdicts)
    return {state: counted[state] for state in STATES if counted[state]}
