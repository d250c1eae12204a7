"""The dashboard of results: it is written, and the audit checks its figures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix import audit
from kernel_matrix.audit import sampled as sampling
from kernel_matrix.matrix.toolchains import toolchain_view
from kernel_matrix.pipeline import Project
from kernel_matrix.report import difference
from kernel_matrix.report.annotations import annotate, ended_annotations
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Document, RunNotes
from kernel_matrix.report.runs import measurements
from kernel_matrix.report.terminal import ended_lines
from kernel_matrix.report.words import headline
from kernel_matrix.results import history
from kernel_matrix.results.history import History

if TYPE_CHECKING:  # DuckDB takes long to import
    from kernel_matrix.results.judged import Judged

_MOST_RED = 20_000  # cases that annotations are made of


@dataclass(frozen=True)
class Dashboard:
    """A dashboard that was written, and what is said about it.

    ``differences`` has a sentence for each figure that, as the audit finds, does not follow from the results.
    ``not_taken`` has a sentence for each file that could not be used, or not all of it. ``ended`` are lines about the
    expectations and exclusions that have ended, and ``annotations`` those for GitHub, if they were asked for.
    """

    index: Path
    document: Document
    differences: tuple[str, ...]
    is_red: bool
    broken: tuple[str, ...]
    not_taken: tuple[str, ...]
    earlier: History
    ended: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The lines about it for a terminal."""
        lines = [headline(self.document), self.document.toolchains.headline, *self.ended, f"dashboard: {self.index}"]
        return [line for line in lines if line]

    @property
    def problems(self) -> list[str]:
        """One sentence for each file that could not be used, or not all of it."""
        differences = [f"audit: {difference}" for difference in self.differences]
        return [*self.broken, *self.not_taken, *self.earlier.problems, *differences]

    @property
    def exit_status(self) -> int:
        """2: a result file was not taken; 1: a case is red, a probe has changed, or a figure is wrong; else 0."""
        if self.broken:
            return 2
        return int(self.is_red or bool(self.document.toolchains.changed or self.differences))


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
    """Write the dashboard of results that were judged, and audit it unless ``notes`` say that the run goes on.

    ``against`` is the site of an earlier run: the summary then says what differs from it. ``left_out`` cases were not
    asked for; ``notes`` stand at the top of the page. ``with_junit`` writes all results beside the page as one JUnit
    file too, which takes longer than all the rest.

    Raises:
        UserError: ``against`` holds no report.
    """
    from kernel_matrix.report import make_document, site  # what they import takes long, and few commands report
    from kernel_matrix.report.cells import Sources

    sources, sample, earlier = Sources(project.matrix, judged, project.rules), _sample(judged), earlier or History()
    document = make_document.document(
        sources,
        earlier=earlier,
        more_notes=(sample.note,) if sample else (),
        left_out=left_out,
        toolchains=toolchain_view(project, judged.probes()),
        run_notes=notes,
    )
    changes = _changes(document, against, earlier) if against else None
    seconds = judged.seconds(site.MOST_SECONDS)
    site.write(document, sources, project.site, earlier=earlier, difference=changes, seconds=seconds)
    site.write_junit(project.site, judged.records() if with_junit else None)
    differences = () if notes and notes.running else _audited(project, judged, sample)
    annotations = _annotations(project, judged) if with_annotations else ()
    return _dashboard(project, judged, document, tuple(differences), earlier, annotations)


def _dashboard(
    project: Project,
    judged: Judged,
    document: Document,
    differences: tuple[str, ...],
    earlier: History,
    annotations: tuple[str, ...],
) -> Dashboard:
    index, broken, ended = project.site / "index.html", judged.loaded.broken, ended_lines(project.file, judged.ended)
    red, not_taken = judged.is_red, judged.not_taken
    return Dashboard(index, document, differences, red, broken, not_taken, earlier, tuple(ended), annotations)


def _sample(judged: Judged) -> sampling.Sample | None:
    """Return the results of a large report that are audited, other ones each time; None if all are."""
    total = judged.results
    if total <= audit.MOST_RESULTS and len(judged.planned.cell) <= audit.MOST_PLANNED:
        return None
    sources = {place: sampling.Source(files, number) for place, files, number in judged.files_by_place()}
    return sampling.choose(sources, total, f"{datetime.now(UTC)}")


def _audited(project: Project, judged: Judged, sample: sampling.Sample | None) -> list[str]:
    """Return a sentence for each figure of the dashboard that does not follow from the results, or from a sample."""
    place = project.matrix, project.root
    if sample:
        return audit.audit_sample(project.site, sample, *place, judged.asked_of(sample.sources))
    return audit.audit(project.site, judged.loaded.folders, *place, judged.asked)


def _changes(document: Document, against: Path, earlier: History) -> Difference:
    """Return what differs from the report in the folder ``against``."""
    past = history.with_run(earlier.measurements, measurements(document))
    return difference.difference(difference.read(against), document, past)


def _annotations(project: Project, judged: Judged) -> tuple[str, ...]:
    ended = ended_annotations(project.file, judged.ended)
    return (*ended, *annotate(project.matrix, judged.red(_MOST_RED)))
