"""The dashboard of results: the state of all planned cases, and what probes and sweeps have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix import pipeline
from kernel_matrix.config.plan import Plan
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.matrix.toolchains import toolchain_view
from kernel_matrix.pipeline import Project, Report
from kernel_matrix.report.annotations import annotate
from kernel_matrix.report.document import Document
from kernel_matrix.report.ended import ended_annotations, ended_lines
from kernel_matrix.report.notes import RunNotes
from kernel_matrix.report.words import headline
from kernel_matrix.results.history import History

if TYPE_CHECKING:  # DuckDB takes long to import
    from kernel_matrix.results.judged import Judged

_MOST_RED = 20_000  # cases that annotations are made of


@dataclass(frozen=True)
class Dashboard:
    """A dashboard that was written, and what is said about it.

    ``not_taken`` has a sentence for each file that could not be used, or not all of it. ``ended`` are lines about the
    expectations and exclusions that have ended, and ``annotations`` those for GitHub, if they were asked for.
    """

    index: Path
    report: Report
    is_red: bool
    broken: tuple[str, ...]
    not_taken: tuple[str, ...]
    earlier: History
    ended: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()

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
        return [*self.broken, *self.not_taken, *self.earlier.problems, *audit]

    @property
    def exit_status(self) -> int:
        """2: a result file was not taken; 1: a case is red, a probe has changed, or a figure is wrong; else 0."""
        if self.broken:
            return 2
        return int(self.is_red or bool(self.document.toolchains.changed or self.report.differences))


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
    with_annotations: bool = False,
    with_junit: bool = False,
) -> Dashboard:
    """Read the results of the folders, judge the plan by them, and write the dashboard.

    ``with_junit`` writes all results beside the page as one JUnit file too, which takes longer than all the rest.

    Raises:
        UserError: a folder does not exist, or ``against`` holds no report.
    """
    with pipeline.judged(project, planned, folders, row_plan=row_plan, statuses=statuses, earlier=earlier) as judged:
        return write_dashboard(
            project,
            judged,
            earlier=earlier,
            against=against,
            left_out=row_plan.left_out if row_plan else 0,
            notes=notes,
            with_annotations=with_annotations,
            with_junit=with_junit,
        )


def write_dashboard(
    project: Project,
    judged: Judged,
    *,
    earlier: History | None = None,
    against: Path | None = None,
    left_out: int = 0,
    notes: RunNotes | None = None,
    with_annotations: bool = False,
    with_junit: bool = False,
) -> Dashboard:
    """Write the dashboard of results that were judged; for the options see :func:`make_dashboard`.

    Raises:
        UserError: ``against`` holds no report.
    """
    report = pipeline.report(
        project,
        judged,
        earlier=earlier,
        against=against,
        left_out=left_out,
        toolchains=toolchain_view(project, judged.probes()),
        notes=notes,
        with_junit=with_junit,
    )
    annotations = _annotations(project, judged) if with_annotations else ()
    return _dashboard(project, judged, report, earlier or History(), annotations)


def _dashboard(
    project: Project, judged: Judged, report: Report, earlier: History, annotations: tuple[str, ...]
) -> Dashboard:
    ended = tuple(ended_lines(project.file, judged.ended))
    index, broken = project.site / "index.html", judged.loaded.broken
    return Dashboard(index, report, judged.is_red, broken, judged.not_taken, earlier, ended, annotations)


def _annotations(project: Project, judged: Judged) -> tuple[str, ...]:
    ended = ended_annotations(project.file, judged.ended)
    return (*ended, *annotate(project.matrix, judged.red(_MOST_RED)))
