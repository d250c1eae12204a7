"""Document and the states of its cases -> the page's overview, whose cells are columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_matrix.base import git
from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.report.cells import Sources
from kernel_matrix.report.document import Cell, Document, Lane, Number, UndiagnosedError
from kernel_matrix.report.lacking import lacking
from kernel_matrix.report.page_data import NOT_PLANNED, SCHEMA_VERSION, CellColumns, Op, Overview, StateWord
from kernel_matrix.report.scripts import shortened
from kernel_matrix.report.sentences import ELSEWHERE, MEANING, STALE, headline, least_exact
from kernel_matrix.results.history import lane_id
from kernel_matrix.results.noise import as_float
from kernel_matrix.results.states import RED, STATES, State
from kernel_matrix.vendors.registry import vendor_named

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
    "told": "t",
    "compiled": "c",
    "pass": "p",
    "excluded": "x",
}


def _in_short(text: str) -> str:
    """Return a text for the overview, which is loaded first and has no long ones."""
    return shortened(text, _MOST_IN_SHORT)


class Columns:
    """The columns of the overview, and the lists that they refer to, in the order of the grid."""

    def __init__(self, document: Document) -> None:
        cells = document.cells
        self.lanes: dict[str, int] = {}  # the place of each lane, as ``ops`` has the place of each operator
        self.ops: dict[tuple[str, str], int] = {}
        for cell in cells:
            self.lanes.setdefault(lane_id(cell.id), len(self.lanes))
            self.ops.setdefault((cell.op, cell.direction), len(self.ops))
        self.cases: list[dict[str, int]] = [{} for _ in self.ops]  # of each op the names, with their places
        self.texts: dict[str, int] = {"": 0}  # their places
        self.backends = {lane_id(cell.id): cell.backend for cell in cells}
        self.devices: dict[str, set[str]] = {lane: set() for lane in self.lanes}
        for cell in cells:
            jobs = (document.jobs[number] for number in cell.measured)
            self.devices[lane_id(cell.id)].update(job["device"] for job in jobs if job.get("device"))
        self._in_order: list[list[str]] = [[] for _ in self.ops]  # the names of the cases as lists
        self._odd = _odd(document)
        self._rows: list[dict[str, Any]] = [{} for _ in cells]
        self._noise: list[Mapping[str, tuple[Number | None, str, int]]] = [{} for _ in cells]

    def add(
        self, row: int, cell: Cell, names: Sequence[str], states: str, chunk: int, in_journal: Mapping[str, State]
    ) -> None:
        """Take in a cell that stands in the file ``cells/CHUNK``; ``states`` has a letter for each name of a case."""
        op = self.ops[cell.op, cell.direction]
        case_states = self._states(op, names, states)
        ratios = {dtype: least_exact(outputs.items()) for dtype, outputs in cell.noise.items() if outputs}
        noise = {dtype: (one.ratio, output, EVIDENCE.index(one.evidence)) for dtype, (output, one) in ratios.items()}
        known = [ratio for ratio, _, _ in noise.values() if ratio is not None]
        self._rows[row] = {
            "lane": self.lanes[lane_id(cell.id)],
            "op": op,
            "state": STATES.index(cell.state),
            "evidence": EVIDENCE.index(cell.evidence),
            "case_states": case_states,
            "in_journal": _letters(self.cases[op], {name: LETTERS[state] for name, state in in_journal.items()}),
            "stale": cell.stale_cases,
            "emulated": cell.emulated,
            "reason": self._place(_in_short(cell.reason)),
            "stage": self._place(cell.stage),
            "rule": self._place(cell.diagnosis.rule if cell.diagnosis else ""),
            "noise": max(known, key=as_float, default=None),
            "share": cell.accuracy.share if cell.accuracy else None,
            "speed": max((timed.ratio for timed in cell.timed), default=None),
            "seconds": round(cell.seconds, 3),
            "odd": cell.id in self._odd,
            "differing": cell.determinism.differing if cell.determinism else None,
            "chunk": chunk,
        }
        self._noise[row] = noise

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

    def _place(self, text: str) -> int:
        """Return the place of a text among the texts, and add it if it is new."""
        return self.texts.setdefault(text, len(self.texts))

    def cells(self) -> CellColumns:
        """Return the columns of all cells."""
        names = [name for name in CellColumns.model_fields if not name.startswith("noise_")]
        columns: dict[str, Any] = {name: [row[name] for row in self._rows] for name in names}
        if not any(columns["in_journal"]):
            columns["in_journal"] = []
        dtypes = sorted({dtype for ratios in self._noise for dtype in ratios})
        by_dtype = {dtype: [ratios.get(dtype, (None, "", -1)) for ratios in self._noise] for dtype in dtypes}
        return CellColumns(
            **columns,
            noise_by_dtype={dtype: [ratio for ratio, _, _ in of_cells] for dtype, of_cells in by_dtype.items()},
            noise_output={dtype: [self._place(output) for _, output, _ in by_dtype[dtype]] for dtype in dtypes},
            noise_evidence={dtype: [level for _, _, level in of_cells] for dtype, of_cells in by_dtype.items()},
        )


def _state_word(state: State) -> StateWord:
    color, meaning = MEANING[state]
    elsewhere = list(ELSEWHERE.get(state, ()))
    return StateWord(
        letter=LETTERS[state], name=state, meaning=meaning, elsewhere=elsewhere, red=state in RED, color=color
    )


def overview(document: Document, columns: Columns, has: list[str], sources: Sources) -> Overview:
    """Return the overview; ``has`` are the names of the other files of data, without the cells'."""
    lanes = {lane.id: lane for lane in document.lanes}
    cells = columns.cells()
    return Overview(
        schema_version=SCHEMA_VERSION,
        title=document.run.package,
        headline=headline(document),
        run=document.run,
        run_notes=document.run_notes,
        silent_days=document.silent_days,
        states=[*map(_state_word, STATES)],
        stale_meaning=STALE,
        evidence=list(EVIDENCE),
        platforms=list(document.platforms),
        lanes=[lanes[name] for name in columns.lanes],
        backends=[columns.backends[name] for name in columns.lanes],
        devices=[sorted(columns.devices[name]) for name in columns.lanes],
        names=_names(document),
        repository=git.web_address(sources.root) if sources.root else "",
        lacking=[lacking(sources.matrix, name, _reached(lanes[name])) for name in columns.lanes],
        ops=[
            Op(op=op, direction=direction, cases=list(columns.cases[n])) for (op, direction), n in columns.ops.items()
        ],
        cells=cells,
        texts=list(columns.texts),
        silent=list(document.silent),
        stale=list(document.stale),
        undiagnosed=[
            UndiagnosedError(stage=error.stage, message=_in_short(error.message), cases=error.cases)
            for error in document.undiagnosed[:_MOST_UNDIAGNOSED]
        ],
        notes=[shortened(text, _MOST_OF_A_NOTE) for text in document.notes],
        problems=[shortened(text, _MOST_OF_A_NOTE) for text in document.problems],
        has=has,
    )


def _reached(lane: Lane) -> Evidence:
    """Return the most evidence of a cell of a lane."""
    return max(lane.by_evidence, key=EVIDENCE.index, default="planned")


def _names(document: Document) -> dict[str, str]:
    """Return the people's names of the targets of each platform."""
    return {
        f"{platform.name}/{target}": words
        for platform in document.platforms
        if platform.vendor
        for target, words in vendor_named(platform.vendor).names.items()
        if target in platform.targets
    }


def _letters(names: Mapping[str, int], states: Mapping[str, str]) -> str:
    """Return a letter for each case, in the order of ``names``, which has the place of each; none after the last."""
    if not states:
        return ""
    row = [NOT_PLANNED] * (max(names[name] for name in states) + 1)
    for name, state in states.items():
        row[names[name]] = state
    return "".join(row)


def _odd(document: Document) -> set[str]:
    """Return the ids of the cells that were the odd one out."""
    return {
        f"{member.platform}/{member.target}/{member.toolchain}/{table.op}.{table.direction}"
        for table in document.agreement.tables
        for member in table.members
        if member.odd
    }
