"""The plan as columns: for every case the number of its cell, of its name and of its rules.

A case is a cell with a name; a plan of a million cases has some thousand cells and names.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kernel_matrix.config import plan as planning
from kernel_matrix.config.cases import combinations, expand
from kernel_matrix.config.model import Exclusion, Expectation, Matrix, Op, Rule, Scalar, Tier, has_values
from kernel_matrix.config.owed import NamedCase, Owed, with_owed
from kernel_matrix.config.plan import TIMED, Case, Cell, Plan

Numbers = npt.NDArray[np.int32]
_T = TypeVar("_T", bound=Hashable)
_OF_A_CELL = ("platform", "target", "toolchain", "op", "direction")  # what an entry can say beside axes


@dataclass(frozen=True)
class Named:
    """The common part of the cases of one name in all cells of an operator and a direction."""

    op: str
    direction: str
    name: str
    axes: Mapping[str, Scalar]
    owed: Owed
    timed: bool


@dataclass(frozen=True)
class Planned:
    """The cases of a plan. ``cell``, ``named``, ``exclusion`` and ``rules`` have one number for each case, in order.

    ``exclusion`` is the place among ``exclusions``, and ``rules`` that among ``expectations``, of which each is all
    that a case has; -1 stands for none.
    """

    cells: Sequence[Cell]
    names: Sequence[Named]
    exclusions: Sequence[Exclusion]
    expectations: Sequence[tuple[Expectation, ...]]
    cell: Numbers
    named: Numbers
    exclusion: Numbers
    rules: Numbers

    def case(self, number: int) -> Case:
        """Return a case as an object."""
        named, exclusion, rules = self.names[self.named[number]], self.exclusion[number], self.rules[number]
        return Case(
            self.cells[self.cell[number]],
            named.name,
            named.axes,
            self.exclusions[exclusion] if exclusion >= 0 else None,
            self.expectations[rules] if rules >= 0 else (),
            named.owed,
            named.timed,
        )

    def table(self) -> pa.Table:
        """Return the plan with names for numbers: one row for each case."""
        cells = pa.array([cell.id for cell in self.cells], pa.string())
        columns = {
            "case": [f"{self.cells[cell].id}/{self.names[named].name}" for cell, named in self._pairs()],
            "cell": cells.take(pa.array(self.cell)),
            "op": pa.array([cell.op for cell in self.cells], pa.string()).take(pa.array(self.cell)),
            "direction": pa.array([cell.direction for cell in self.cells], pa.string()).take(pa.array(self.cell)),
            "name": pa.array([named.name for named in self.names], pa.string()).take(pa.array(self.named)),
            "outputs": pa.array([[*named.owed.outputs] for named in self.names], pa.list_(pa.string())).take(
                pa.array(self.named)
            ),
            "exclusion": self.exclusion,
            "expectations": self.rules,
        }
        return pa.table(columns)

    def _pairs(self) -> zip[tuple[int, int]]:
        return zip(self.cell.tolist(), self.named.tolist(), strict=True)


class _Places(Generic[_T]):
    """Number distinct values in the order in which they come."""

    def __init__(self) -> None:
        self.values: dict[_T, int] = {}

    def __getitem__(self, value: _T) -> int:
        return self.values.setdefault(value, len(self.values))


def of_plan(plan: Plan) -> Planned:
    """Return the cases of a plan that was already made."""
    cells, rules = _Places[Cell](), _Places[tuple[int, ...]]()
    names: dict[Hashable, int] = {}
    of_name: list[Named] = []
    exclusions = {id(case.exclusion): case.exclusion for case in plan.cases if case.exclusion}
    places = {identity: place for place, identity in enumerate(exclusions)}
    expectations: dict[tuple[int, ...], tuple[Expectation, ...]] = {}
    rows = []
    for case in plan.cases:
        cell = case.cell
        key = cell.op, cell.direction, case.name, case.owed, str(case.axes.get("dtype")), case.timed
        if key not in names:
            names[key] = len(of_name)
            of_name.append(Named(cell.op, cell.direction, case.name, case.axes, case.owed, case.timed))
        expected = tuple(map(id, case.expectations))
        expectations.setdefault(expected, case.expectations)
        exclusion = places[id(case.exclusion)] if case.exclusion else -1
        rows.append((cells[cell], names[key], exclusion, rules[expected] if expected else -1))
    columns = np.array(rows, np.int32).reshape(-1, 4).T
    sets = tuple(expectations[key] for key in rules.values)
    return Planned(tuple(cells.values), of_name, [*exclusions.values()], sets, *columns)


def of_matrix(matrix: Matrix, tier: Tier) -> Planned:
    """Return the cases of :func:`kernel_matrix.config.plan.plan` in the same order, without an object for each."""
    named = _Names(matrix, tier)
    cells = _Places[Cell]()
    blocks: list[tuple[int, Numbers]] = []
    for job in planning.plan(_one_case_for_each_cell(matrix), tier).jobs:
        for case in job.cases:
            block = named.blocks[case.cell.op, case.cell.direction, case.timed]
            if len(block):
                blocks.append((cells[case.cell], block))
    cell = np.repeat(
        np.array([number for number, _ in blocks], np.int32), np.array([len(block) for _, block in blocks], np.int64)
    )
    place = np.concatenate([block for _, block in blocks]) if blocks else np.empty(0, np.int32)
    all_cells = tuple(cells.values)
    exclusion = np.full(len(cell), -1, np.int32)
    for number, entry in enumerate(matrix.exclusions):  # the first that selects a case excludes it
        exclusion[_selected(entry, all_cells, named.all, cell, place) & (exclusion < 0)] = number
    rules, expectations = _expectations(matrix, all_cells, named.all, cell, place)
    return Planned(all_cells, named.all, matrix.exclusions, expectations, cell, place, exclusion, rules)


def _selected(
    rule: Rule, cells: Sequence[Cell], names: Sequence[Named], cell: Numbers, named: Numbers
) -> npt.NDArray[np.bool_]:
    """Return which cases a rule selects: a part of its ``where`` is of the cell, and the rest of the axes."""
    of_cell = {key: values for key, values in rule.where.items() if key in _OF_A_CELL}
    of_axes = {key: values for key, values in rule.where.items() if key not in _OF_A_CELL}
    cells_selected = np.array(
        [has_values({key: getattr(c, key) for key in _OF_A_CELL}, of_cell) for c in cells], np.bool_
    )
    names_selected = np.array([has_values(n.axes, of_axes) for n in names], np.bool_)
    selected: npt.NDArray[np.bool_] = cells_selected[cell] & names_selected[named]
    return selected


def _expectations(
    matrix: Matrix, cells: Sequence[Cell], names: Sequence[Named], cell: Numbers, named: Numbers
) -> tuple[Numbers, list[tuple[Expectation, ...]]]:
    """Return the number of the expectations of each case, and the expectations by number."""
    numbers = np.full(len(cell), -1, np.int32)
    sets: list[tuple[Expectation, ...]] = []
    for rule in matrix.expectations:
        selected = _selected(rule, cells, names, cell, named)
        for former in np.unique(numbers[selected]).tolist():
            numbers[selected & (numbers == former)] = len(sets)
            sets.append((*(sets[former] if former >= 0 else ()), rule))
    return numbers, sets


class _Names:
    """The names of the cases: all, and the numbers of those of an operator in a direction."""

    def __init__(self, matrix: Matrix, tier: Tier) -> None:
        self.all: list[Named] = []
        self.blocks: dict[tuple[str, str, bool], Numbers] = {}
        for op_name, op in matrix.ops.items():
            for direction in op.directions:
                cases = with_owed(matrix, op_name, direction, expand(op, tier, direction))
                timed = with_owed(matrix, op_name, direction, combinations(op, op.timed, direction))
                self._add(op_name, direction, cases, timed=False)
                self._add(op_name, direction, timed, timed=True)

    def _add(self, op: str, direction: str, cases: Sequence[NamedCase], *, timed: bool) -> None:
        first = len(self.all)
        self.all += [
            Named(op, direction, f"{name}{TIMED}" if timed else name, axes, owed, timed) for name, axes, owed in cases
        ]
        self.blocks[op, direction, timed] = np.arange(first, len(self.all), dtype=np.int32)


def _one_case_for_each_cell(matrix: Matrix) -> Matrix:
    """Return a matrix whose plan has the cells and jobs of ``matrix``, and a nameless case for each cell and kind."""
    ops: dict[str, Op] = {
        name: op.model_copy(
            update={
                "axes": [],
                "defaults": {},
                "canary": {},
                "cases": {"quick": [{}]},
                "timed": [{}] if op.timed else [],
            }
        )
        for name, op in matrix.ops.items()
    }
    return matrix.model_copy(update={"ops": ops, "exclusions": [], "expectations": []})
