"""Document and the states of its cases -> the page's overview, whose cells are columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.report.document import Cell, Document, Number
from kernel_matrix.report.page_data import NOT_PLANNED, SCHEMA_VERSION
from kernel_matrix.report.ratios import as_float, least_exact
from kernel_matrix.report.scripts import shortened
from kernel_matrix.report.words import MEANING, STALE, headline
from kernel_matrix.results.history import lane_id
from kernel_matrix.results.states import RED, STATES, State

_MOST_IN_SHORT = 300  # characters of a text of a cell
_MOST_OF_A_NOTE = 2_000
_MOST_UNDIAGNOSED = 200  # of the errors that no rule knows, the most frequent first
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


def _in_short(text: str) -> str:
    """Return a text for the overview, which is loaded first and has no long ones."""
    return shortened(text, _MOST_IN_SHORT)


class Columns:
    """The columns of the overview, and the lists that they refer to."""

    def __init__(self) -> None:
        self.ops: dict[tuple[str, str], int] = {}  # their places, by operator and direction
        self.cases: list[dict[str, int]] = []  # of each op the names, with their places
        self._in_order: list[list[str]] = []  # the same names as a list
        self.lanes: dict[str, int] = {}
        self.texts: dict[str, int] = {"": 0}  # their places
        self.rows: list[dict[str, Any]] = []
        self.backends: dict[str, str] = {}  # by lane
        self.noise: list[Mapping[str, tuple[Number | None, str, int]]] = []

    def add(self, cell: Cell, names: Sequence[str], states: str, chunk: int, in_journal: Mapping[str, State]) -> None:
        """Take in a cell that stands in the file ``cells/CHUNK``; ``states`` has a letter for each name of a case."""
        op = self.place_of_op(cell.op, cell.direction)
        case_states = self._states(op, names, states)
        place = self.place_of_text
        ratios = {dtype: least_exact(outputs.items()) for dtype, outputs in cell.noise.items() if outputs}
        noise = {dtype: (one.ratio, output, EVIDENCE.index(one.evidence)) for dtype, (output, one) in ratios.items()}
        known = [ratio for ratio, _, _ in noise.values() if ratio is not None]
        lane = lane_id(cell.id)
        self.backends[lane] = cell.backend
        self.rows.append({
            "id": cell.id,
            "lane": self.place_of_lane(lane),
            "op": op,
            "state": STATES.index(cell.state),
            "evidence": EVIDENCE.index(cell.evidence),
            "case_states": case_states,
            "in_journal": _letters(self.cases[op], {name: LETTERS[state] for name, state in in_journal.items()}),
            "stale": cell.stale_cases,
            "reason": place(_in_short(cell.reason)),
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

    def _states(self, op: int, names: Sequence[str], states: str) -> str:
        """Return the letters in the order of the op's names, and add the names that are new."""
        known = self._in_order[op]
        if known[: len(names)] == names:  # in most cells: the letters are in this order already
            return states
        places = self.cases[op]
        for name in names:
            places.setdefault(name, len(places))
        self._in_order[op] = list(places)
        return _letters(places, dict(zip(names, states, strict=True)))

    def place_of_text(self, text: str) -> int:
        """Return the place of a text among the texts, and add it if it is new."""
        return self.texts.setdefault(text, len(self.texts))

    def place_of_lane(self, lane: str) -> int:
        """Return the place of a lane among the lanes, and add it if it is new."""
        return self.lanes.setdefault(lane, len(self.lanes))

    def place_of_op(self, op: str, direction: str) -> int:
        """Return the place of an operator in one direction among the ops, and add it if it is new."""
        if (op, direction) not in self.ops:
            self.ops[op, direction] = len(self.ops)
            self.cases.append({})
            self._in_order.append([])
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
            dtype: [self.place_of_text(output) for _, output, _ in by_dtype[dtype]] for dtype in dtypes
        }
        columns["noise_evidence"] = {dtype: [level for _, _, level in by_dtype[dtype]] for dtype in dtypes}
        return columns


def _letters(names: Mapping[str, int], states: Mapping[str, str]) -> str:
    """Return a letter for each case, in the order of ``names``, which has the place of each; none after the last."""
    if not states:
        return ""
    row = [NOT_PLANNED] * (max(names[name] for name in states) + 1)
    for name, state in states.items():
        row[names[name]] = state
    return "".join(row)


def overview(document: Document, columns: Columns, has: list[str]) -> dict[str, Any]:
    """Return the overview; ``has`` are the names of the other files of data, without the cells'."""
    lanes = {lane.id: lane for lane in document.lanes}
    cells = columns.in_order({cell.id: place for place, cell in enumerate(document.cells)}, _odd(document))
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
        "texts": list(columns.texts),
        "silent": [lane.model_dump(mode="json") for lane in document.silent],
        "stale": [reason.model_dump(mode="json") for reason in document.stale],
        "undiagnosed": [
            {"stage": error.stage, "message": _in_short(error.message), "cases": error.cases}
            for error in document.undiagnosed[:_MOST_UNDIAGNOSED]
        ],
        "notes": [shortened(text, _MOST_OF_A_NOTE) for text in document.notes],
        "problems": [shortened(text, _MOST_OF_A_NOTE) for text in document.problems],
        "has": has,
    }  # fmt: skip


def _odd(document: Document) -> set[str]:
    """Return the ids of the cells that were the odd one out."""
    return {
        f"{member.platform}/{member.target}/{member.toolchain}/{table.op}.{table.direction}"
        for table in document.agreement.tables
        for member in table.members
        if member.odd
    }
