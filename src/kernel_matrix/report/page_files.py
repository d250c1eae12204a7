"""Document and cases -> the page's files of data: cells with their cases, the overview, and what other views need."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import PydanticSerializationError

from kernel_matrix.report.cells import Sources
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Cell, Document, cell_as_dict, cell_as_json
from kernel_matrix.report.page_cases import Cases, PageCases
from kernel_matrix.report.page_data import HistoryData, Transition, Trend
from kernel_matrix.report.page_overview import LETTERS, Columns, overview
from kernel_matrix.report.scripts import MOST_CHARACTERS, encoded, remove_others, shortened, write_script
from kernel_matrix.results.history import Measurement, Measurements, lane_id
from kernel_matrix.results.states import STATES, State

FOLDER = "data"
CHUNK = 200_000  # characters of a file of cells, about
_OF_CASE, _OF_OUTPUT = 150, 200  # characters of a case without its outputs, and of an output, about
_MOST_OF_A_REASON = 300  # characters
_LETTERS = np.frombuffer("".join(LETTERS[state] for state in STATES).encode(), np.uint8)


def write_data(document: Document, sources: Sources, site: Path, history: HistoryData | None = None) -> None:
    """Write the data of the page into the folder ``data`` of a site, and remove files of an older report.

    The overview comes last: a page that reads it finds all other files.
    """
    folder = site / FOLDER
    files, order, in_journal = CellFiles(folder, document), _by_lane(document), sources.judged.in_journal
    for place, (cases, start) in zip(order, PageCases(sources).cells(order), strict=True):
        cell = document.cells[place]
        files.add(cell, cases, start, in_journal.get(cell.id, {}))
    files.finish()
    others = _others(document, history or HistoryData(transitions=[], trends=[]))
    for name, value in others.items():
        write_script(folder / f"{name}.js", name, encoded(value))
    write_script(folder / "overview.js", "overview", encoded(overview(document, files.columns, list(others))))
    remove_others(folder, {*files.written, *(folder / f"{name}.js" for name in ("overview", *others))})


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


class CellFiles:
    """Write the cells as they come, and keep the columns of the overview. Cells of one lane should come together."""

    def __init__(self, folder: Path, document: Document) -> None:
        """``folder`` is the folder of all data."""
        self.folder = folder
        self.written: set[Path] = set()
        self.columns = Columns()
        self._file = _File(0)
        self._lane = ""
        for cell in document.cells:  # lanes and operators keep the order of the grid
            self.columns.place_of_lane(lane_id(cell.id))
            self.columns.place_of_op(cell.op, cell.direction)

    def add(self, cell: Cell, cases: Cases, start: int, in_journal: Mapping[str, State]) -> None:
        """Take in a cell whose cases begin at a place of some tables, behind those of the cell before.

        ``in_journal`` has the states of the cases that only a journal knows, by name.
        """
        lane, file = lane_id(cell.id), self._file
        if file.size >= CHUNK or (lane != self._lane and file.size >= CHUNK // 2) or file.cases is not cases:
            self.finish()
        self._lane = lane
        end = start + cell.planned
        if not self._file.ids:
            self._file.cases, self._file.start = cases, start
        self._file.add(cell, cases.outputs_of(start, end))
        states = _LETTERS[cases.states(start, end)].tobytes().decode()
        self.columns.add(cell, cases.names(start, end), states, self._file.number, in_journal)

    def finish(self) -> None:
        """Write what is left."""
        if self._file.ids:
            self.written.add(self._file.write(self.folder))
            self._file = _File(self._file.number + 1)


class _File:
    """The cells of one file. Their cases are in some tables, from ``start`` on."""

    def __init__(self, number: int) -> None:
        self.number, self.size = number, 0
        self.ids: list[str] = []
        self.cases: Cases | None = None
        self.start = 0
        self._cells: list[bytes] = []
        self._planned = 0

    def add(self, cell: Cell, outputs: int) -> None:
        """Take in a cell whose cases have a number of outputs together."""
        outline = _outline(cell)
        self._cells.append(b'%b:{"cell":%b,"first":%d}' % (encoded(cell.id), outline, self._planned))
        self.ids.append(cell.id)
        self.size += len(outline) + _OF_CASE * cell.planned + _OF_OUTPUT * outputs
        self._planned += cell.planned

    def write(self, folder: Path) -> Path:
        """Write the file."""
        assert self.cases is not None
        cases, outputs = map(b64encode, self.cases.written(self.start, self.start + self._planned))
        path = folder / "cells" / f"{self.number}.js"
        content = b'{"cells":{%b},"cases":"%b","outputs":"%b"}' % (b",".join(self._cells), cases, outputs)
        write_script(path, f"cells/{self.number}", content)
        return path


def _outline(cell: Cell) -> bytes:
    """Return a cell without its cases as JSON."""
    if len(cell.reason) > MOST_CHARACTERS or len(cell.error) > MOST_CHARACTERS:
        cell = replace(cell, reason=shortened(cell.reason), error=shortened(cell.error))
    try:
        return cell_as_json(cell)
    except PydanticSerializationError:  # UTF-8 does not have some text
        return encoded(cell_as_dict(cell))


def history_data(
    document: Document, past: Measurements, difference: Difference | None, tables: Path | None = None
) -> HistoryData:
    """Return what the page knows of earlier runs.

    ``past`` are the measurements of all runs with the present one. ``difference`` is that to an earlier report. Where
    there are ``tables`` of earlier runs, their transitions come after those of the difference.
    """
    return HistoryData(
        transitions=[*_transitions(document, difference), *_of_tables(tables)],
        trends=_trends(past),
    )


def _of_tables(folder: Path | None) -> list[Transition]:
    """Return the transitions of the runs in a folder of tables, the newest first."""
    if folder is None:
        return []
    from kernel_matrix.results.past import transitions  # DuckDB and pyarrow take long to import

    return [
        Transition.model_validate({**transition, "reason": transition["reason"][:_MOST_OF_A_REASON]})
        for transition in transitions(folder)
    ]


def _transitions(document: Document, difference: Difference | None) -> list[Transition]:
    if difference is None:
        return []
    changes = (*difference.newly_red, *difference.no_longer_red, *difference.other)
    commits = ", ".join(document.run.commits)
    return [
        Transition(
            cell=change.cell,
            before=change.before,
            after=change.after,
            since=document.run.created,
            commit=commits,
            commit_before=difference.base,
            versions={},
            reason=change.reason[:_MOST_OF_A_REASON],
        )
        for change in changes
    ]


def _trends(past: Measurements) -> list[Trend]:
    """Return a trend for each cell and device with more than one run: one point shows no direction."""
    trends = []
    for cell, series in past.items():
        by_device: dict[str, list[Measurement]] = {}
        for measurement in series:
            by_device.setdefault(measurement.device, []).append(measurement)
        trends += [_trend(cell, device, runs) for device, runs in by_device.items() if len(runs) > 1]
    return trends


def _trend(cell: str, device: str, runs: list[Measurement]) -> Trend:
    return Trend(
        cell=cell,
        device=device,
        started=[run.started for run in runs],
        commits=[run.commit for run in runs],
        noise=_series(run.noise for run in runs),
        speed=_series(run.speed for run in runs),
        seconds=_series(run.seconds for run in runs),
    )


def _series(figures: Iterable[dict[str, float]]) -> dict[str, list[float | None]]:
    """Return the values of each figure over the runs; None where a run has no such figure."""
    runs = list(figures)
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: [run.get(name) for run in runs] for name in names}
