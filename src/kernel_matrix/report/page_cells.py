"""Cells with their cases -> the files ``cells/NUMBER`` of the page, and the columns of its overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic_core import PydanticSerializationError

from kernel_matrix.report.document import Cell, Document, cell_as_dict, cell_as_json
from kernel_matrix.report.page_columns import MOST_CHARACTERS, Cases, shortened
from kernel_matrix.report.page_overview import Columns
from kernel_matrix.report.page_script import encoded, write_script
from kernel_matrix.results.history import lane_id
from kernel_matrix.results.states import State

CHUNK = 200_000  # characters of a file, about
_OF_CASE, _OF_OUTPUT = 150, 200  # characters of a case without its outputs, and of an output, about


def path_of(folder: Path, number: int) -> Path:
    """Return the file of cells with a number; ``folder`` is that of all data."""
    return folder / "cells" / f"{number}.js"


class CellFiles:
    """Write the cells as they come, and keep the columns of the overview. Cells of one lane should come together."""

    def __init__(self, folder: Path, document: Document) -> None:
        """``folder`` is the folder of all data."""
        self.folder, self.jobs = folder, document.jobs
        self.written: set[Path] = set()
        self.columns = Columns()
        self._file = _File(0)
        self._lane = ""
        for cell in document.cells:  # lanes and operators keep the order of the grid
            self.columns.place_of_lane(lane_id(cell.id))
            self.columns.place_of_op(cell.op, cell.direction)

    def add(self, cell: Cell, cases: Cases, start: int, in_journal: Mapping[str, State] | None = None) -> None:
        """Take in a cell whose cases begin at a place of some columns, behind those of the cell before.

        ``in_journal`` has the states of the cases that only a journal knows, by name.
        """
        self._begin(cell, cases)
        end = start + cell.planned
        if not self._file.ids:
            self._file.cases, self._file.start = cases, start
        self._file.add(cell, cases.outputs.number(start, end))
        self.columns.add(
            cell, cases.names_of(start, end), cases.letters(start, end), self._file.number, in_journal or {}
        )

    def finish(self) -> None:
        """Write what is left."""
        if self._file.ids:
            self.written.add(self._file.write(self.folder, self.jobs))
            self._file = _File(self._file.number + 1)

    def _begin(self, cell: Cell, cases: Cases) -> None:
        """End the file if it is large enough, or if the cases of the next cell are in other columns."""
        lane, file = lane_id(cell.id), self._file
        if file.size >= CHUNK or (lane != self._lane and file.size >= CHUNK // 2) or file.cases is not cases:
            self.finish()
        self._lane = lane


class _File:
    """The cells of one file. Their cases are in some columns, from ``start`` on."""

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

    def write(self, folder: Path, jobs: Sequence[Mapping[str, str]]) -> Path:
        """Write the file; ``jobs`` are those of all results."""
        assert self.cases is not None
        path = path_of(folder, self.number)
        content = self.cases.written(self.start, self.start + self._planned, jobs)
        write_script(path, f"cells/{self.number}", b'{"cells":{%b},%b}' % (b",".join(self._cells), content))
        return path


def _outline(cell: Cell) -> bytes:
    """Return a cell without its cases as JSON."""
    if len(cell.reason) > MOST_CHARACTERS or len(cell.error) > MOST_CHARACTERS:
        cell = replace(cell, reason=shortened(cell.reason), error=shortened(cell.error))
    try:
        return cell_as_json(cell)
    except PydanticSerializationError:  # UTF-8 does not have some text
        return encoded(cell_as_dict(cell))
