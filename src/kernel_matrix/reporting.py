"""Verdicts as columns -> the dashboard, and the audit of what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_matrix import audit as auditing
from kernel_matrix.audit import sampled as sampling
from kernel_matrix.config.plan import Plan
from kernel_matrix.project import Project
from kernel_matrix.report import difference
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Document
from kernel_matrix.report.measurements import measurements
from kernel_matrix.report.notes import RunNotes
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.results import history
from kernel_matrix.results.history import History

if TYPE_CHECKING:
    from kernel_matrix.results.judged import Judged


@dataclass(frozen=True)
class Report:
    """The document of a dashboard that was written, and a sentence for each figure that its results do not make."""

    document: Document
    differences: tuple[str, ...] = ()


def report(
    project: Project,
    results: Judged,
    *,
    earlier: History | None = None,
    against: Path | None = None,
    left_out: int = 0,
    toolchains: Toolchains | None = None,
    notes: RunNotes | None = None,
    with_junit: bool = False,
) -> Report:
    """Write the dashboard, audit it, and return its document with the differences that the audit has found.

    ``against`` is the site of an earlier run: the summary then says what differs from it. ``left_out`` cases were not
    asked for; ``toolchains`` are the results of probes and sweeps; ``notes`` stand at the top of the page.
    ``with_junit`` writes all results as one JUnit file too.

    Raises:
        UserError: ``against`` holds no report.
    """
    from kernel_matrix.report import make_document, site  # what they import takes long, and few commands report
    from kernel_matrix.report.cells import Sources

    sources = Sources(project.matrix, results, project.rules)
    sample = _sample(results)
    facts: dict[str, Any] = {"left_out": left_out, "toolchains": toolchains, "run_notes": notes}
    more_notes = (sample.note,) if sample else ()
    document = make_document.document(sources, earlier=earlier, more_notes=more_notes, **facts)
    changes = _changes(document, against, earlier) if against else None
    seconds = results.seconds(site.MOST_SECONDS)
    site.write(document, sources, project.site, earlier=earlier, difference=changes, seconds=seconds)
    site.write_junit(project.site, results.all_records() if with_junit else None)
    if notes and notes.running:  # a page for the time of the run: the one at its end is audited
        return Report(document)
    return Report(document, tuple(_audited(project, results, sample)))


def _sample(results: Judged) -> sampling.Sample | None:
    """Return the results of a large report that are audited, other ones each time; None if all are."""
    total = results.results
    if total <= auditing.MOST_RESULTS and len(results.planned.cell) <= auditing.MOST_PLANNED:
        return None
    sources = {place: sampling.Source(files, number) for place, files, number in results.files_by_place()}
    return sampling.choose(sources, total, f"{datetime.now(UTC)}")


def _audited(project: Project, results: Judged, sample: sampling.Sample | None) -> list[str]:
    """Return a sentence for each figure of the dashboard that does not follow from the results, or from a sample."""
    place = project.matrix, project.root
    if sample:
        return auditing.audit_sample(project.site, sample, *place, results.asked_of(sample.sources))
    return auditing.audit(project.site, results.loaded.folders, *place, results.asked)


def _changes(document: Document, against: Path, earlier: History | None) -> Difference:
    """Return what differs from the report in the folder ``against``."""
    past = history.with_run(earlier.measurements if earlier else {}, measurements(document))
    return difference.difference(difference.read(against), document, past)


def audit(project: Project, planned: Plan, folders: Sequence[Path], site: Path | None = None) -> list[str]:
    """Return a sentence for each figure of the dashboard that does not follow from the results.

    Raises:
        UserError: there is no dashboard.
    """
    asked = {case.id for case in planned.cases}
    return auditing.audit(site or project.site, folders, project.matrix, project.root, asked)
