"""The dashboard of results: the state of all planned cases, and what probes and sweeps have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.config.plan import Plan
from kernel_matrix.lab.toolchain_view import toolchain_view
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.pipeline import Project, Report
from kernel_matrix.report.document import Document
from kernel_matrix.report.ended import ended_lines
from kernel_matrix.report.notes import RunNotes
from kernel_matrix.report.words import headline
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.compare import Comparison
from kernel_matrix.results.history import History


@dataclass(frozen=True)
class Dashboard:
    """A dashboard that was written, and what it was made from."""

    index: Path
    report: Report
    comparison: Comparison
    collected: Collected
    earlier: History
    ended: tuple[str, ...] = ()  # lines about the expectations and exclusions that have ended

    @property
    def document(self) -> Document:
        """The content of the dashboard."""
        return self.report.document

    @property
    def lines(self) -> list[str]:
        """The lines about it for a terminal."""
        lines = [headline(self.document), self.document.toolchains.headline, *self.ended, f"dashboard: {self.index}"]
        return [line for line in lines if line]

    @property
    def problems(self) -> list[str]:
        """One sentence for each file that could not be used, or not all of it."""
        audit = [f"audit: {difference}" for difference in self.report.differences]
        return [*self.collected.broken, *self.comparison.not_taken, *self.earlier.problems, *audit]

    @property
    def exit_status(self) -> int:
        """2: a result file was not taken; 1: a case is red, a probe has changed, or a figure is wrong; else 0."""
        if self.collected.broken:
            return 2
        wrong = bool(self.document.toolchains.changed or self.report.differences)
        return int(self.comparison.is_red or wrong)


def make_dashboard(
    project: Project,
    planned: Plan,
    folders: Sequence[Path],
    *,
    row_plan: RowPlan | None = None,
    statuses: Mapping[str, JobStatus] | None = None,
    earlier: History | None = None,
    against: Path | None = None,
    notes: RunNotes | None = None,
) -> Dashboard:
    """Collect the results of the folders, compare them with the plan, and write the dashboard.

    Raises:
        UserError: a folder does not exist, or ``against`` holds no report.
    """
    collected = pipeline.collect(project, folders, row_plan)
    comparison = pipeline.compare(project, planned, collected, row_plan=row_plan, statuses=statuses, earlier=earlier)
    toolchains = toolchain_view(project, collected.records)
    report = pipeline.report(
        project,
        comparison,
        collected,
        earlier=earlier,
        against=against,
        left_out=row_plan.left_out if row_plan else 0,
        toolchains=toolchains,
        notes=notes,
    )
    ended = tuple(ended_lines(project.matrix.start, project.file, comparison.ended))
    return Dashboard(project.site / "index.html", report, comparison, collected, earlier or History(), ended)
