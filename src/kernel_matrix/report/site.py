"""Document -> the files of a site: the page, the badges, compat.json, summary.md, the results and the history."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from kernel_matrix.base.files import write_atomically
from kernel_matrix.report import badges
from kernel_matrix.report.badges import Badge
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import FILE, Document
from kernel_matrix.report.measurements import measurements
from kernel_matrix.report.page import page, picture, summary
from kernel_matrix.report.page_files import write_data
from kernel_matrix.results import history, junit, samples
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.history import History


def write(
    document: Document,
    collected: Collected,
    site: Path,
    *,
    earlier: History | None = None,
    difference: Difference | None = None,
) -> None:
    """Write everything into the folder ``site``.

    ``collected`` are the results that the document was made from: they stand in ``junit.xml`` and ``junit.npz``. The
    history goes on from ``earlier`` runs. With a ``difference``, the summary is that and not the whole table.
    """
    site.mkdir(parents=True, exist_ok=True)
    write_atomically(site / "index.html", page(document))
    write_data(document, site)
    write_atomically(site / FILE, document.model_dump_json(indent=1) + "\n")
    write_atomically(site / "summary.md", summary(document, difference))
    _write_badge(site / "badge", badges.of_document(document))
    _write_lanes(document, earlier or History(), site)
    junit.merge(collected.files, site / "junit.xml")
    samples.write(samples.beside(site / "junit.xml"), collected.records)


def _write_lanes(document: Document, earlier: History, site: Path) -> None:
    """Write a badge for each lane, and the history for the next run."""
    now = datetime.fromisoformat(document.run.created)
    lanes = {**earlier.lanes, **{lane.id: lane.history for lane in document.lanes}}
    figures = history.with_run(earlier.measurements, measurements(document))
    write_atomically(site / history.FILE, history.to_json(lanes, now, figures))
    folder = site / "badges"
    folder.mkdir(exist_ok=True)
    for lane in document.lanes:
        badge = badges.of_history(lane.id, lane.history, now, document.silent_days)
        _write_badge(folder / lane.id.replace("/", "."), badge)


def _write_badge(path: Path, badge: Badge) -> None:
    """Write a badge as an endpoint of shields.io and as a picture."""
    write_atomically(path.with_name(f"{path.name}.json"), json.dumps(badge.endpoint()) + "\n")
    write_atomically(path.with_name(f"{path.name}.svg"), picture(badge))
