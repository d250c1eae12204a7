"""The plan as columns: for every case the number of its cell, of its name and of its rules.

A case is a cell with a name; a plan of a million cases has some thousand cells and names.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernel_matrix.config.model import Exclusion, Expectation, Scalar
from kernel_matrix.config.owed import Owed
from kernel_matrix.config.plan import Case, Cell, Plan

Numbers = npt.NDArray[np.int32]


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

    ``exclusion`` is the place of the case's exclusion among ``exclusions``, and ``rules`` the place of all its
    expectations among ``expectations``; -1 stands for none.
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


class _Names:
    """Number the names of cases. Cells of one operator share the axes of a case, so most names are known by these."""

    def __init__(self) -> None:
        self.names: list[Named] = []
        self._places: dict[Hashable, int] = {}
        self._shared: dict[Hashable, int] = {}

    def place(self, case: Case) -> int:
        """Return the number of a case's name."""
        cell = case.cell
        shared = cell.op, cell.direction, case.name, id(case.axes), id(case.owed), case.timed
        place = self._shared.get(shared)
        if place is None:
            key = cell.op, cell.direction, case.name, case.owed, str(case.axes.get("dtype")), case.timed
            place = self._shared[shared] = self._places.setdefault(key, len(self.names))
            if place == len(self.names):
                self.names.append(Named(cell.op, cell.direction, case.name, case.axes, case.owed, case.timed))
        return place


def of_plan(plan: Plan) -> Planned:
    """Return the cases of a plan that was already made."""
    cells: dict[Cell, int] = {}
    rules: dict[tuple[int, ...], int] = {}
    names = _Names()
    exclusions = {id(case.exclusion): case.exclusion for case in plan.cases if case.exclusion}
    places = {identity: place for place, identity in enumerate(exclusions)}
    expectations: dict[tuple[int, ...], tuple[Expectation, ...]] = {}
    numbers = array("i")  # four for each case; tuples of a million cases would take 150 MB
    last: Cell | None = None
    place = 0
    for case in plan.cases:
        cell = case.cell
        expected = tuple(map(id, case.expectations))
        expectations.setdefault(expected, case.expectations)
        exclusion = places[id(case.exclusion)] if case.exclusion else -1
        if cell is not last:  # the cases of a cell come one after the other
            last, place = cell, cells.setdefault(cell, len(cells))
        rule = rules.setdefault(expected, len(rules)) if expected else -1
        numbers.extend((place, names.place(case), exclusion, rule))
    columns = np.frombuffer(numbers, np.int32).reshape(-1, 4).T
    sets = tuple(expectations[key] for key in rules)
    return Planned(tuple(cells), names.names, [*exclusions.values()], sets, *columns)
