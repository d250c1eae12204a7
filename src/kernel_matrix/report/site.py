"""Document -> the files of a site: the page and its data, badges, tables, the summary, the results and the history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from kernel_matrix.base.files import write_atomically, written_whole
from kernel_matrix.report import badges, support, table
from kernel_matrix.report.badges import Badge
from kernel_matrix.report.cells import Sources
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import FILE, Document, cell_as_json
from kernel_matrix.report.grid import THEMES, grid, places_of
from kernel_matrix.report.markdown import picture, summary
from kernel_matrix.report.page_data import HistoryData
from kernel_matrix.report.page_files import history_data, write_data
from kernel_matrix.report.runs import measurements
from kernel_matrix.results import history
from kernel_matrix.results.history import History
from kernel_matrix.store import junit
from kernel_matrix.store.record import Record

APP = Path(__file__).parent / "app" / "dist"  # the page itself, which is built from TypeScript
JUNIT = "junit.xml"
MOST_SECONDS = 20_000  # cases whose time the history keeps: the rest is estimated from them
APP_FILES = ("index.html", "app.js", "app.css", "licenses.txt")


def write(
    document: Document,
    sources: Sources,
    site: Path,
    *,
    earlier: History | None = None,
    difference: Difference | None = None,
    seconds: Mapping[str, float] | None = None,
) -> None:
    """Write everything into the folder ``site``.

    The history goes on from ``earlier`` runs, with the ``seconds`` of the cases of this one. With a ``difference``, the
    summary is that and not the whole table. ``sources`` have the cases of the cells.
    """
    site.mkdir(parents=True, exist_ok=True)
    earlier = earlier or History()
    past = history.with_run(earlier.measurements, measurements(document))
    write_page(document, sources, site, history_data(document, past, difference, earlier.tables, sources.root))
    _write_document(document, site / FILE)
    write_atomically(site / table.FILE, table.table(document))
    write_atomically(site / "summary.md", summary(document, difference))
    write_atomically(site / support.FILE, support.support(document))
    places = places_of(document)
    for theme in THEMES:
        write_atomically(site / f"grid-{theme}.svg", grid(document, theme, places))
    _write_badges(document, site)
    lanes = {**earlier.lanes, **{lane.id: lane.history for lane in document.lanes}}
    write_atomically(site / history.FILE, history.to_json(lanes, _created(document), past, seconds))


def _write_document(document: Document, path: Path) -> None:
    """Write compat.json, one cell after the other: the text of all is large."""
    to_json = document.__pydantic_serializer__.to_json
    # A cell stands two levels deep, and no text in JSON holds a new line.
    cells = (cell_as_json(cell, indent=1).replace(b"\n", b"\n  ") for cell in document.cells)
    before, empty, after = to_json(document.model_copy(update={"cells": ()}), indent=1).partition(b'\n "cells": []')
    with written_whole(path) as part, part.open("wb") as file:
        file.write(before + (b'\n "cells": [' if document.cells else empty))
        for index, cell in enumerate(cells):
            file.write(b",\n  " if index else b"\n  ")
            file.write(cell)
        file.write((b"\n ]" if document.cells else b"") + after + b"\n")


def write_junit(site: Path, records: Sequence[Record] | None) -> None:
    """Write all results as one JUnit file, for other programs.

    Without records, remove the file of an earlier report: it would not be of the results that the page shows.
    """
    if records is None:
        (site / JUNIT).unlink(missing_ok=True)
    else:
        junit.write_all(site / JUNIT, records)


def write_page(document: Document, sources: Sources, site: Path, past: HistoryData | None = None) -> None:
    """Write the page and its data."""
    site.mkdir(parents=True, exist_ok=True)
    write_data(document, sources, site, past)
    for name in APP_FILES:
        write_atomically(site / name, (APP / name).read_bytes())


def _write_badges(document: Document, site: Path) -> None:
    """Write the badge of the report, and one for each platform and each lane."""
    now = _created(document)
    folder = site / "badges"
    folder.mkdir(exist_ok=True)
    _write_badge(site / "badge", badges.of_document(document))
    for badge in badges.of_platforms(document):
        _write_badge(folder / badge.label, badge)
    for lane in document.lanes:
        badge = badges.of_history(lane.id, lane.history, now, document.silent_days)
        _write_badge(folder / lane.id.replace("/", "."), badge)


def _created(document: Document) -> datetime:
    return datetime.fromisoformat(document.run.created)


def _write_badge(path: Path, badge: Badge) -> None:
    """Write a badge as an endpoint of shields.io and as a picture."""
    write_atomically(path.with_name(f"{path.name}.json"), json.dumps(badge.endpoint()) + "\n")
    write_atomically(path.with_name(f"{path.name}.svg"), picture(badge))
