"""Comparison -> Document, for the few results of a run that goes on, and of the two sides of a difference.

A report is made from columns (:mod:`kernel_matrix.report.from_columns`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import Rule
from kernel_matrix.report import from_cells
from kernel_matrix.report.agreement import agreement_report
from kernel_matrix.report.bench import bench_results
from kernel_matrix.report.cells import JobList, Sources, make_cell
from kernel_matrix.report.document import Cell, Document
from kernel_matrix.report.from_cells import Facts
from kernel_matrix.report.notes import RunNotes
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.compare import Comparison
from kernel_matrix.results.history import History, lane_id
from kernel_matrix.results.record import Record
from kernel_matrix.results.repeat import Commands


def document(
    matrix: Matrix,
    comparison: Comparison,
    collected: Collected,
    rules: tuple[Rule, ...] | None = None,
    *,
    earlier: History | None = None,
    left_out: int = 0,
    toolchains: Toolchains | None = None,
    run_notes: RunNotes | None = None,
    now: datetime | None = None,
) -> Document:
    """Return everything that is known of the results, with the cases of each cell.

    ``rules`` are the diagnosis rules of the project, by default the harness's own. For the others see
    :func:`kernel_matrix.report.from_cells.document`.
    """
    jobs = JobList()
    sources = Sources(matrix, rules, jobs, Commands(matrix))
    cells = tuple(make_cell(sources, verdict) for verdict in comparison.cells)
    return from_cells.document(
        matrix,
        cells,
        _facts(comparison, collected, cells, tuple(dict(job) for job in jobs.jobs)),
        earlier=earlier,
        left_out=left_out,
        toolchains=toolchains,
        run_notes=run_notes,
        now=now,
    )


def _facts(
    comparison: Comparison,
    collected: Collected,
    cells: tuple[Cell, ...],
    jobs: tuple[dict[str, str], ...],
) -> Facts:
    return Facts(
        package=comparison.plan.package,
        tier=comparison.plan.tier,
        commits={r.job["commit"] for r in collected.records if r.job.get("commit")},
        devices={r.job["device"] for r in collected.records if _used_device(r)},
        unplanned=len(comparison.unplanned),
        with_results=_with_results(comparison),
        stale=Counter(verdict.stale for cell in comparison.cells for verdict in cell.cases if verdict.stale),
        undiagnosed=_undiagnosed(cells),
        problems=collected.broken,
        notes=(*comparison.notes, *(state.sentence for state in comparison.ended), *comparison.not_taken),
        agreement=agreement_report((v.case, v.record) for c in comparison.cells for v in c.cases if v.record),
        jobs=jobs,
        bench=bench_results(collected.records, comparison.presence),
    )


def _with_results(comparison: Comparison) -> set[str]:
    """Return the lanes in which a machine tried at least one case."""
    return {
        lane_id(verdict.case.id)
        for cell in comparison.cells
        for verdict in cell.cases
        if verdict.record and verdict.record.outcome in ("pass", "fail", "error")
    }


def _undiagnosed(cells: Iterable[Cell]) -> Counter[tuple[str, str]]:
    """Return the errors that no rule knows, each with the number of its cases. They show which rules to add."""
    counted: Counter[tuple[str, str]] = Counter()
    for result in (result for cell in cells for result in cell.results):
        message = result.message or result.reason
        if result.state == "error" and result.diagnosis and not result.diagnosis.rule and message:
            counted[result.stage, message.splitlines()[0]] += 1
    return counted


def _used_device(record: Record) -> bool:
    return record.action in ("run", "emulate") and record.job.get("device", "none") != "none"
