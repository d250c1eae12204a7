"""Document -> the page's files of data: the overview, the details of the cells, and what other views need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.report.cells import Sources
from kernel_matrix.report.document import Document
from kernel_matrix.report.page_columns import shortened
from kernel_matrix.report.page_data import SCHEMA_VERSION, HistoryData
from kernel_matrix.report.page_overview import LETTERS, Columns, in_short
from kernel_matrix.report.page_rows import PageRows
from kernel_matrix.report.page_script import encoded, remove_others, write_script
from kernel_matrix.report.words import MEANING, STALE, headline
from kernel_matrix.results.history import lane_id
from kernel_matrix.results.states import RED, STATES

FOLDER = "data"
_MOST_OF_A_NOTE = 2_000  # characters
_MOST_UNDIAGNOSED = 200  # of the errors that no rule knows, the most frequent first


def write_data(document: Document, sources: Sources, site: Path, history: HistoryData | None = None) -> None:
    """Write the data of the page into the folder ``data`` of a site, and remove files of an older report.

    The overview comes last: a page that reads it finds all other files.
    """
    folder = site / FOLDER
    files = PageRows(sources).write(document, folder, _by_lane(document))
    columns, written = files.columns, files.written
    others = _others(document, history or HistoryData(transitions=[], trends=[]))
    for name, value in others.items():
        write_script(folder / f"{name}.js", name, encoded(value))
    overview = _overview(document, columns, list(others))
    write_script(folder / "overview.js", "overview", encoded(overview))
    remove_others(folder, {*written, *(folder / f"{name}.js" for name in ("overview", *others))})


def _by_lane(document: Document) -> list[int]:
    """Return the places of the cells, so that those of one lane come together."""
    lanes: dict[str, int] = {}
    of_cells = [lanes.setdefault(lane_id(cell.id), len(lanes)) for cell in document.cells]
    return sorted(range(len(of_cells)), key=of_cells.__getitem__)


def _others(document: Document, history: HistoryData) -> dict[str, Any]:
    """Return the values of the other files that have something to show, by name."""
    agreement, toolchains = document.agreement, document.toolchains
    others: dict[str, Any] = {}
    if document.speed or document.bench:
        others["speed"] = {
            "bench": [result.model_dump(mode="json") for result in document.bench],
            "cases": [timed.model_dump(mode="json") for timed in document.speed],
        }
    if agreement.tables or agreement.refused or agreement.without:
        others["agreement"] = agreement.model_dump(mode="json")
    if toolchains.families or toolchains.sweeps or toolchains.headline:
        others["toolchains"] = toolchains.model_dump(mode="json")
    if history.transitions or history.trends:
        others["history"] = history.model_dump(mode="json")
    return others


def _overview(document: Document, columns: Columns, has: list[str]) -> dict[str, Any]:
    odd = {
        f"{member.platform}/{member.target}/{member.toolchain}/{table.op}.{table.direction}"
        for table in document.agreement.tables
        for member in table.members
        if member.odd
    }
    lanes = {lane.id: lane for lane in document.lanes}
    cells = columns.in_order({cell.id: place for place, cell in enumerate(document.cells)}, odd)
    return {
        "schema_version": SCHEMA_VERSION,
        "title": document.run.package,
        "headline": headline(document),
        "run": document.run.model_dump(mode="json"),
        "run_notes": document.run_notes.model_dump(mode="json"),
        "silent_days": document.silent_days,
        "states": [
            {"letter": LETTERS[state], "name": state, "meaning": MEANING[state][1], "red": state in RED,
             "color": MEANING[state][0]}
            for state in STATES
        ],
        "stale_meaning": STALE,
        "evidence": list(EVIDENCE),
        "platforms": [platform.model_dump(mode="json") for platform in document.platforms],
        "lanes": [lanes[name].model_dump(mode="json") for name in columns.lanes],
        "backends": [columns.backends[name] for name in columns.lanes],
        "ops": [{"op": op, "direction": direction, "cases": list(columns.cases[place])}
                for (op, direction), place in columns.ops.items()],
        "cells": cells,
        "texts": list(columns.texts.texts),
        "silent": [lane.model_dump(mode="json") for lane in document.silent],
        "stale": [reason.model_dump(mode="json") for reason in document.stale],
        "undiagnosed": [
            {"stage": error.stage, "message": in_short(error.message), "cases": error.cases}
            for error in document.undiagnosed[:_MOST_UNDIAGNOSED]
        ],
        "notes": [shortened(text, _MOST_OF_A_NOTE) for text in document.notes],
        "problems": [shortened(text, _MOST_OF_A_NOTE) for text in document.problems],
        "has": has,
    }  # fmt: skip
