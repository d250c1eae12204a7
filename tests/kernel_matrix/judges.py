"""Judge records that a test has made, and take all verdicts out of the database as plain values."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.config.plan import Cell, Plan
from kernel_matrix.judge import verdicts
from kernel_matrix.pipeline import Project
from kernel_matrix.results.columns.database import database
from kernel_matrix.results.columns.insert import add_records
from kernel_matrix.results.columns.judged import Judged
from kernel_matrix.results.columns.load import Loaded
from kernel_matrix.results.columns.planned import of_plan
from kernel_matrix.results.columns.records import Jobs
from kernel_matrix.results.columns.sampled import Samples
from kernel_matrix.results.compare import STATES, Verdict, outputs_not_named
from kernel_matrix.results.present import Present
from kernel_matrix.results.record import Record
from kernel_matrix.results.validation import Bounds


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
        CellFound(cell.cell, cell.state, cell.evidence, cell.stale, by_cell[cell.cell]) for cell in judged.cells()
    )
    return Found(cells, judged.is_red, judged.notes, judged.ended, judged.not_taken, judged.unplanned)


def judged_files(project: Project, planned: Plan, folders: Sequence[Path], now: datetime | None = None) -> Found:
    """Return all verdicts of the results in some folders."""
    with pipeline.judged(project, planned, folders, now=now) as results:
        return found(results)


@contextlib.contextmanager
def judged(plan: Plan, records: Iterable[Record], present: Present | None = None) -> Iterator[Judged]:
    """Judge records as those of one file, in a database of their own."""
    with database() as connection:
        add_records(connection, "records of a test", [*records])
        planned = of_plan(plan)
        verdicts.judge(connection, planned, present)
        loaded = Loaded((), (), {}, (), Samples(Bounds()))
        notes = (*([present.note] if present and present.note else []), *outputs_not_named(plan))
        yield Judged(connection, planned, plan.package, plan.tier, loaded, Jobs(connection), notes, presence=present)


def compare(plan: Plan, records: Iterable[Record], present: Present | None = None) -> Found:
    """Return all verdicts of records."""
    with judged(plan, records, present) as results:
        return found(results)


def _counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counted = Counter(verdict.state for verdict in verdicts)
    return {state: counted[state] for state in STATES if counted[state]}
