"""Document and cases -> the page's files of data: cells with their cases, the overview, and what other views need."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from kernel_matrix.base import git
from kernel_matrix.report.cells import Sources
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Cell, Document
from kernel_matrix.report.page_cases import Cases, PageCases
from kernel_matrix.report.page_data import (
    CellChunk,
    CellDetail,
    ChecksData,
    Coverage,
    HistoryData,
    SpeedData,
    Transition,
    Trend,
)
from kernel_matrix.report.page_overview import LETTERS, Columns, overview
from kernel_matrix.report.scripts import MOST_CHARACTERS, encoded, remove_others, shortened, write_script
from kernel_matrix.results.history import Measurement, Measurements, lane_id
from kernel_matrix.results.states import STATES

FOLDER = "data"
CHUNK = 200_000  # characters of a file of cells, about
_OF_CELL, _OF_CASE, _OF_OUTPUT = 1_300, 150, 200  # characters, about; each without its parts
_MOST_OF_A_REASON = 300  # characters
_LETTERS = np.frombuffer("".join(LETTERS[state] for state in STATES).encode(), np.uint8)


def write_data(document: Document, sources: Sources, site: Path, history: HistoryData | None = None) -> None:
    """Write the data of the page into the folder ``data`` of a site, and remove files of an older report.

    The overview comes last: a page that reads it finds all other files.
    """
    folder = site / FOLDER
    columns, written = _write_cells(document, sources, folder)
    others = _others(document, history or HistoryData(transitions=[], trends=[]))
    files = {**others, "overview": overview(document, columns, list(others), sources)}
    for name, value in files.items():
        write_script(folder / f"{name}.js", name, encoded(value.model_dump(mode="json")))
    remove_others(folder, {*written, *(folder / f"{name}.js" for name in files)})


def _others(document: Document, history: HistoryData) -> dict[str, BaseModel]:
    """Return the values of the other files that have something to show, by name."""
    agreement, toolchains = document.agreement, document.toolchains
    others: dict[str, BaseModel] = {}
    if document.speed or document.bench:
        others["speed"] = SpeedData(bench=list(document.bench), cases=list(document.speed))
    if agreement.tables or agreement.refused or agreement.without:
        others["agreement"] = agreement
    if toolchains.families or toolchains.sweeps or toolchains.headline:
        others["toolchains"] = toolchains
    if document.checks:
        others["checks"] = ChecksData(checks=list(document.checks))
    if history.transitions or history.trends:
        others["history"] = history
    return others


def _write_cells(document: Document, sources: Sources, folder: Path) -> tuple[Columns, set[Path]]:
    """Write the files of cells. Return the columns of the overview, and the files."""
    columns, file, written = Columns(document), None, set[Path]()
    lanes = [columns.lanes[lane_id(cell.id)] for cell in document.cells]
    order = sorted(range(len(lanes)), key=lanes.__getitem__)  # the cells of a lane come together
    for place, (cases, start) in zip(order, PageCases(sources).cells(order), strict=True):
        cell, lane = document.cells[place], lanes[place]
        if file is None or not file.takes(cases, lane):
            written |= {file.write(folder)} if file else set()
            file = _File(len(written), cases, start)
        file.add(cell, lane)
        end = start + cell.planned
        states = _LETTERS[cases.states[start:end]].tobytes().decode()
        in_journal = sources.judged.in_journal.get(cell.id, {})
        columns.add(place, cell, cases.names[start:end], states, file.number, in_journal)
    return columns, written | ({file.write(folder)} if file else set())


@dataclass
class _File:
    """The cells of one file, whose cases follow one another in some tables from ``start`` on."""

    number: int
    cases: Cases
    start: int
    planned: int = 0
    size: int = 0
    lane: int = -1
    cells: dict[str, CellDetail] = field(default_factory=dict)

    def takes(self, cases: Cases, lane: int) -> bool:
        """Return whether a cell of a lane, with its cases in these tables, belongs into the file."""
        return self.cases is cases and self.size < (CHUNK if lane == self.lane else CHUNK // 2)

    def add(self, cell: Cell, lane: int) -> None:
        """Take in the cell that comes next."""
        self.lane, first = lane, self.planned
        self.planned += cell.planned
        if len(cell.reason) > MOST_CHARACTERS or len(cell.error) > MOST_CHARACTERS:
            cell = replace(cell, reason=shortened(cell.reason), error=shortened(cell.error))
        self.cells[cell.id] = CellDetail(cell=cell, first=first)
        outputs = self.cases.outputs_of(self.start + first, self.start + self.planned)
        self.size += _OF_CELL + _OF_CASE * cell.planned + _OF_OUTPUT * outputs

    def write(self, folder: Path) -> Path:
        """Write the file."""
        tables = self.cases.written(self.start, self.start + self.planned)
        cases, outputs = (b64encode(table).decode() for table in tables)
        path, chunk = folder / "cells" / f"{self.number}.js", CellChunk(cells=self.cells, cases=cases, outputs=outputs)
        write_script(path, f"cells/{self.number}", chunk.model_dump_json().encode())
        return path


def history_data(
    document: Document,
    past: Measurements,
    difference: Difference | None,
    tables: Sequence[Path] = (),
    root: Path | None = None,
) -> HistoryData:
    """Return what the page knows of earlier runs.

    ``past`` are the measurements of all runs with the present one. ``difference`` compares with an earlier report.
    Where there are ``tables`` of earlier runs, their transitions come after the transitions of the difference; the
    checkout at ``root`` names the commits between two states.
    """
    return HistoryData(
        transitions=[*_transitions(document, difference), *_of_tables(tables, root)],
        trends=_trends(past),
        coverage=_coverage(tables),
    )


def _of_tables(folders: Sequence[Path], root: Path | None) -> list[Transition]:
    """Return the transitions of the runs in folders of tables, the newest first."""
    if not folders:
        return []
    from kernel_matrix.results.past import transitions  # DuckDB and pyarrow take long to import

    between = cache(lambda before, after: git.between(root, before, after) if root else "")
    return [
        Transition.model_validate(
            {
                **one,
                "reason": one["reason"][:_MOST_OF_A_REASON],
                "between": between(one["commit_before"], one["commit"]),
            }
        )
        for one in transitions(folders)
    ]


def _coverage(folders: Sequence[Path]) -> list[Coverage]:
    """Return what worked on each platform in the runs of folders of tables, the oldest first."""
    if not folders:
        return []
    from kernel_matrix.results.past import coverage  # DuckDB and pyarrow take long to import

    return [Coverage.model_validate(one) for one in coverage(folders)]


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
