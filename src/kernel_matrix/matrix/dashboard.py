"""The dashboard of results: it is written, and the audit checks its figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix import audit
from kernel_matrix.audit import job_sample as sampling
from kernel_matrix.config.lock_faults import lock_differences
from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks, difference
from kernel_matrix.report.checks import Check
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Document, RunNotes
from kernel_matrix.report.runs import measurements, read_site
from kernel_matrix.report.sentences import headline
from kernel_matrix.report.terminal import ended_lines
from kernel_matrix.results import history
from kernel_matrix.results.history import History

if TYPE_CHECKING:  # DuckDB takes long to import
    from kernel_matrix.results.judged import Judged


@dataclass(frozen=True)
class Dashboard:
    """A dashboard that was written, and what is said about it.

    ``lines`` are those about it for a terminal. ``problems`` has a sentence for each file that could not be used, or
    not all of it, and for each of the ``differences``: the figures that, as the audit finds, do not follow from the
    results. ``exit_status`` is 2 if a result file was not taken; 1 if a case is red, no case has a result, a probe has
    changed, or a figure is wrong; else 0.
    """

    index: Path
    document: Document
    lines: tuple[str, ...]
    problems: tuple[str, ...]
    differences: tuple[str, ...]
    exit_status: int


def write_dashboard(
    project: Project,
    judged: Judged,
    asked: Judged | None = None,
    *,
    earlier: History | None = None,
    against: Path | None = None,
    left_out: int = 0,
    notes: RunNotes | None = None,
    with_junit: bool = False,
) -> Dashboard:
    """Write the dashboard of results that were judged, and audit it unless ``notes`` say that the run goes on.

    The exit status speaks of the cases that are ``asked`` for, by default of all. The summary says what differs from
    the site ``against``. ``left_out`` cases are not on the page; ``notes`` stand at its top. ``with_junit`` adds JUnit.

    Raises:
        UserError: ``against`` holds no report.
    """
    from kernel_matrix.probes.toolchain_view import toolchain_view
    from kernel_matrix.report import cells, make_document, site  # what they import takes long, and few commands report

    sources = cells.Sources(project.matrix, judged, lambda: project.rules, project.root)
    sample, earlier = _sample(judged), earlier or History()
    of_locks = lock_differences(project.matrix, project.root)
    document = make_document.document(
        sources,
        earlier=earlier,
        left_out=left_out,
        toolchains=(view := toolchain_view(project, judged.probes())),
        more_notes=(*((sample.note,) if sample else ()), *view.warnings, *of_locks),
        checks=checks_of(project),
        run_notes=notes,
    )
    changes = _changes(document, against, earlier) if against else None
    seconds = judged.seconds(site.MOST_SECONDS)
    site.write(document, sources, project.site, earlier=earlier, difference=changes, seconds=seconds)
    site.write_junit(project.site, judged.records() if with_junit else None)
    differences = () if notes and notes.running else _audited(project, judged, sample)
    return _dashboard(project, judged, asked or judged, document, tuple(differences), earlier)


def _dashboard(
    project: Project,
    judged: Judged,
    asked: Judged,
    document: Document,
    differences: tuple[str, ...],
    earlier: History,
) -> Dashboard:
    lines, broken = tuple(_lines(project, judged, document)), judged.loaded.broken
    problems = (*broken, *judged.not_taken, *earlier.problems, *(f"audit: {difference}" for difference in differences))
    status = 2 if broken else int(asked.is_red or asked.is_empty or bool(document.toolchains.changed or differences))
    return Dashboard(project.site / "index.html", document, lines, problems, differences, status)


def _lines(project: Project, judged: Judged, document: Document) -> Iterator[str]:
    """Yield the lines about a dashboard for a terminal."""
    yield headline(document)
    if document.toolchains.headline:
        yield document.toolchains.headline
    yield from ended_lines(project.file, judged.ended)
    yield f"dashboard: {project.site / 'index.html'}"


def _sample(judged: Judged) -> sampling.Sample | None:
    """Return the results of a large report that are audited, other ones each time; None if all are."""
    total = judged.results
    if not judged.loaded.unread and total <= audit.MOST_RESULTS and len(judged.planned.cell) <= audit.MOST_PLANNED:
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
    return difference.difference(read_site(against).outline, document, past)


def checks_of(project: Project) -> tuple[Check, ...]:
    """Return the checks: those in the build folder, then the ones that the package keeps.

    Raises:
        UserError: a file cannot be used.
    """
    kept = project.matrix.package.checks
    return checks.read(project.build / checks.FOLDER, *([project.root / kept] if kept else ()))
