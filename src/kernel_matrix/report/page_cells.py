"""Cells with their cases -> the files ``cells/NUMBER`` of the page, and the columns of its overview.

Plain dictionaries are made here and no models, because there may be a million cases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.report.document import CaseResult, Cell, Document, Number
from kernel_matrix.report.page_data import NOT_PLANNED
from kernel_matrix.report.page_script import encoded, write_script
from kernel_matrix.report.ratios import as_float, least_exact
from kernel_matrix.results.compare import STATES, State
from kernel_matrix.results.history import lane_id

if TYPE_CHECKING:  # DuckDB takes long to import, and the page of a run that goes on needs none
    from kernel_matrix.report.page_rows import PageRows, Row

CHUNK = 200_000  # characters of a file, about
MOST_CHARACTERS = 100_000  # of one text: the results have all of it
MOST_IN_OVERVIEW = 300  # of a text there
# Of every state, in ``case_states``. A cell has few of them, so a capital letter is easier to tell from a small one.
LETTERS: Mapping[State, str] = {
    "fail": "F",
    "error": "E",
    "fixed": "X",
    "missing": "M",
    "flaky": "L",
    "known": "k",
    "unavailable": "u",
    "lowered": "l",
    "held": "h",
    "compiled": "c",
    "pass": "p",
    "excluded": "x",
}


class Texts:
    """Texts, each once; the first is empty."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {"": 0}

    def place(self, text: str) -> int:
        """Return the place of a text in the list, and add it if it is new. A very long one is cut."""
        place = self.texts.get(text)
        if place is None:
            place = self.texts.setdefault(shortened(text), len(self.texts))
        return place


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text; of a very long one the beginning, and how much was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most} more characters are in the results."


def in_short(text: str) -> str:
    """Return a text for the overview, which is loaded first and has no long ones."""
    return shortened(text, MOST_IN_OVERVIEW)


def path_of(folder: Path, number: int) -> Path:
    """Return the file of cells with a number; ``folder`` is that of all data."""
    return folder / "cells" / f"{number}.js"


class Chunk:
    """The cells of one file, and what they share."""

    def __init__(self, number: int) -> None:
        self.number, self.size = number, 0
        self.cells: list[bytes] = []
        self.ids: list[str] = []
        self.jobs: dict[int, int] = {}  # numbers here, by the place in the document, which another job can move
        self.texts = Texts()
        self.figures: dict[str, int] = {}
        self.positions: dict[tuple[str, ...], tuple[int, ...]] = {}  # by the names of an output's figures
        self.diagnoses: dict[Any, int] = {}

    def add_results(self, cell: Cell) -> None:
        """Take in a cell with its cases as models."""
        self._add(cell, encoded([self._result(cell.id, result) for result in cell.results]))

    def add_rows(self, cell: Cell, rows: Iterable[Row], pages: PageRows) -> None:
        """Take in a cell with its cases as rows of columns."""
        from kernel_matrix.report.page_rows import Shared
        from kernel_matrix.report.page_sql import PAGE_FIGURES

        if not self.figures:
            self.figures = {name: place for place, name in enumerate(PAGE_FIGURES)}
        shared = Shared(self.texts.place, self.diagnoses, self.jobs, self.figures)
        self._add(cell, f"[{','.join(pages.written(row, shared) for row in rows)}]".encode())

    def _add(self, cell: Cell, results: bytes) -> None:
        outline = cell.model_dump(mode="json")
        outline["reason"], outline["error"] = shortened(cell.reason), shortened(cell.error)
        text = b'{"cell":%b,"results":%b}' % (encoded(outline), results)
        self.cells.append(b"%b:%b" % (encoded(cell.id), text))
        self.ids.append(cell.id)
        self.size += len(text)

    def write(self, folder: Path, jobs: list[Mapping[str, str]] | tuple[Mapping[str, str], ...]) -> Path:
        """Write the file; ``jobs`` are those of all results."""
        rest = {
            "jobs": {str(number): dict(jobs[place]) for place, number in self.jobs.items()},
            "texts": list(self.texts.texts),
            "figures": list(self.figures),
            "diagnoses": [asdict(diagnosis) for diagnosis in self.diagnoses],
        }
        path = path_of(folder, self.number)
        write_script(path, f"cells/{self.number}", b'{"cells":{%b},%b' % (b",".join(self.cells), encoded(rest)[1:]))
        return path

    def _result(self, cell: str, result: CaseResult) -> dict[str, Any]:
        """Return a case without what has its default value."""
        place = self.texts.place
        case: dict[str, Any] = {"name": result.name, "state": result.state, "evidence": result.evidence}
        for key in ("reason", "stale", "message", "detail"):
            if text := getattr(result, key):
                case[key] = place(text)
        for key in ("stage", "action", "seconds", "artifact", "facts"):
            if value := getattr(result, key):
                case[key] = value
        if result.diagnosis is not None:
            case["diagnosis"] = self.diagnoses.setdefault(result.diagnosis, len(self.diagnoses))
        if result.attempts:
            case["attempts"] = list(result.attempts)
        if result.outputs:
            case["outputs"] = {name: self._figures(figures) for name, figures in result.outputs.items()}
        if result.times:
            case["times"] = result.times.model_dump()
        if result.job is not None:
            case["job"] = self.jobs.setdefault(result.job, len(self.jobs))
        case["repeat"] = place(result.repeat.replace(f"{cell}/{result.name}", "{case}"))
        return case

    def _figures(self, figures: Mapping[str, Number]) -> list[Number | None]:
        """Return the figures of an output in the order of this chunk."""
        names = tuple(figures)
        positions = self.positions.get(names)
        if positions is None:
            for name in names:
                self.figures.setdefault(name, len(self.figures))
            places = {name: place for place, name in enumerate(names)}
            positions = self.positions[names] = tuple(places.get(name, -1) for name in self.figures)
        values = (*figures.values(), None)  # the last one stands at the place -1
        return list(map(values.__getitem__, positions))


class CellFiles:
    """Write the cells as they come, and keep the columns of the overview. Cells of one lane should come together."""

    def __init__(self, folder: Path, document: Document, numbers: Iterable[int] | None = None) -> None:
        """``folder`` is that of all data, and ``numbers`` are those that the files get, from 0 by default."""
        self.folder, self.jobs = folder, document.jobs
        self.written: set[Path] = set()
        self.columns = Columns()
        self.cells: dict[int, list[str]] = {}  # the ids of the cells of each file, by its number
        self._numbers = iter(count() if numbers is None else numbers)
        self._chunk = Chunk(next(self._numbers))
        self._lane = ""
        for cell in document.cells:  # lanes and operators keep the order of the grid
            self.columns.place_of_lane(lane_id(cell.id))
            self.columns.place_of_op(cell.op, cell.direction)

    def add(self, cell: Cell, in_journal: Mapping[str, State] | None = None) -> None:
        """Take in a cell; ``in_journal`` has the states of its cases that only a journal knows, by case name."""
        self._begin(cell)
        self._chunk.add_results(cell)
        self.columns.add(cell, {r.name: r.state for r in cell.results}, self._chunk.number, in_journal or {})

    def add_rows(self, cell: Cell, rows: Sequence[Row], pages: PageRows) -> None:
        """Take in a cell with its cases as rows of columns."""
        self._begin(cell)
        self._chunk.add_rows(cell, rows, pages)
        self.columns.add(cell, {pages.name(row): row.state for row in rows}, self._chunk.number, {})

    def keep(self, cell: Cell, states: Mapping[str, State], number: int) -> None:
        """Take in a cell that stands in a file of an earlier report, with the states of its cases by name."""
        if self._chunk.cells:
            self._flush()
        self._lane = lane_id(cell.id)
        self.written.add(path_of(self.folder, number))
        self.cells.setdefault(number, []).append(cell.id)
        self.columns.add(cell, states, number, {})

    def _begin(self, cell: Cell) -> None:
        lane = lane_id(cell.id)
        if self._chunk.size >= CHUNK or (lane != self._lane and self._chunk.size >= CHUNK // 2):
            self._flush()
        self._lane = lane

    def finish(self) -> None:
        """Write what is left."""
        if self._chunk.cells:
            self._flush()

    def _flush(self) -> None:
        self.written.add(self._chunk.write(self.folder, self.jobs))
        self.cells[self._chunk.number] = self._chunk.ids
        self._chunk = Chunk(next(self._numbers))


class Columns:
    """The columns of the overview, and the lists that they refer to."""

    def __init__(self) -> None:
        self.ops: dict[tuple[str, str], int] = {}  # their places, by operator and direction
        self.cases: list[dict[str, int]] = []  # of each op the names, with their places
        self.lanes: dict[str, int] = {}
        self.texts = Texts()
        self.rows: list[dict[str, Any]] = []
        self.backends: dict[str, str] = {}  # by lane
        self.noise: list[Mapping[str, tuple[Number | None, str, int]]] = []

    def add(self, cell: Cell, states: Mapping[str, State], chunk: int, in_journal: Mapping[str, State]) -> None:
        """Take in a cell that stands in the file ``cells/CHUNK``, with the states of its cases by name."""
        op = self.place_of_op(cell.op, cell.direction)
        names = self.cases[op]
        for name in states:
            names.setdefault(name, len(names))
        place = self.texts.place
        ratios = {dtype: least_exact(outputs.items()) for dtype, outputs in cell.noise.items() if outputs}
        noise = {dtype: (one.ratio, output, EVIDENCE.index(one.evidence)) for dtype, (output, one) in ratios.items()}
        known = [ratio for ratio, _, _ in noise.values() if ratio is not None]
        self.backends[lane_id(cell.id)] = cell.backend
        self.rows.append({
            "id": cell.id,
            "lane": self.place_of_lane(lane_id(cell.id)),
            "op": op,
            "state": STATES.index(cell.state),
            "evidence": EVIDENCE.index(cell.evidence),
            "case_states": letters(names, states),
            "in_journal": letters(names, in_journal),
            "stale": cell.stale_cases,
            "reason": place(in_short(cell.reason)),
            "stage": place(cell.stage),
            "rule": place(cell.diagnosis.rule if cell.diagnosis else ""),
            "noise": max(known, key=as_float, default=None),
            "share": cell.accuracy.share if cell.accuracy else None,
            "speed": max((timed.ratio for timed in cell.timed), default=None),
            "seconds": round(cell.seconds, 3),
            "odd": False,
            "differing": cell.determinism.differing if cell.determinism else None,
            "chunk": chunk,
        })  # fmt: skip
        self.noise.append(noise)

    def place_of_lane(self, lane: str) -> int:
        """Return the place of a lane among the lanes, and add it if it is new."""
        return self.lanes.setdefault(lane, len(self.lanes))

    def place_of_op(self, op: str, direction: str) -> int:
        """Return the place of an operator in one direction among the ops, and add it if it is new."""
        if (op, direction) not in self.ops:
            self.ops[op, direction] = len(self.ops)
            self.cases.append({})
        return self.ops[op, direction]

    def in_order(self, order: Mapping[str, int], odd: Collection[str]) -> dict[str, Any]:
        """Return the columns with the cells in the order of the grid; ``odd`` are the cells that were the odd one out.

        ``order`` has the place of each cell in the grid, by its id.
        """
        pairs = sorted(zip(self.rows, self.noise, strict=True), key=lambda pair: order[pair[0]["id"]])
        rows, noise = [row for row, _ in pairs], [ratios for _, ratios in pairs]
        names = [name for name in (rows[0] if rows else ()) if name != "id"]
        columns: dict[str, Any] = {name: [row[name] for row in rows] for name in names}
        columns["odd"] = [row["id"] in odd for row in rows]
        if not any(columns["in_journal"]):
            columns["in_journal"] = []
        dtypes = sorted({dtype for ratios in noise for dtype in ratios})
        by_dtype = {dtype: [ratios.get(dtype, (None, "", -1)) for ratios in noise] for dtype in dtypes}
        columns["noise_by_dtype"] = {dtype: [ratio for ratio, _, _ in by_dtype[dtype]] for dtype in dtypes}
        columns["noise_output"] = {
            dtype: [self.texts.place(output) for _, output, _ in by_dtype[dtype]] for dtype in dtypes
        }
        columns["noise_evidence"] = {dtype: [level for _, _, level in by_dtype[dtype]] for dtype in dtypes}
        return columns


def letters(names: Mapping[str, int], states: Mapping[str, State]) -> str:
    """Return a letter for each case, in the order of ``names``, which has the place of each; none after the last."""
    if not states:
        return ""
    row = [NOT_PLANNED] * (max(names[name] for name in states) + 1)
    for name, state in states.items():
        row[names[name]] = LETTERS[state]
    return "".join(row)
