"""matrix.yaml -> the cases that the search may try, as a strategy of hypothesis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from kernel_matrix.config.model import Bounds, Fuzz, Matrix, Op, PlatformToolchain, Scalar, as_list
from kernel_matrix.config.plan import Cell, expand
from kernel_matrix.tools.fuzz.case_names import SEED, Tried
from kernel_matrix.tools.fuzz.inside.drawing import SMALL, around, edges, size_between, unusual_values
from kernel_matrix.tools.fuzz.inside.values import KINDS, NOT_FINITE

_MOST = {"run": 1 << 18, "emulate": 1 << 14}  # elements of a case: an interpreter takes milliseconds for each token
_TOGETHER = 8  # cases at most that share what is compiled


@dataclass(frozen=True)
class Space:
    """The cases of one cell. The sizes around ``tiles`` and the ``edges`` are tried more often than others."""

    op: str
    direction: str
    sizes: Mapping[str, Bounds]
    tiles: Mapping[str, Sequence[int]]
    edges: Mapping[str, Sequence[int]]
    others: Mapping[str, Sequence[Scalar]]
    free: frozenset[str]
    order: Sequence[str]
    most: int
    kinds: Sequence[str]
    tensors: Sequence[str] = field(default=())

    def with_tensors(self, tensors: Sequence[str]) -> Space:
        """Return the space in which the values of these tensors may be unusual."""
        return replace(self, tensors=tuple(tensors))

    def smaller(self, tried: Tried) -> Iterator[Tried]:
        """Yield cases with a smaller value of one free size, the smallest first; hypothesis tries only some."""
        for axis in self.sizes:
            if axis in self.free:
                least, size = self.sizes[axis].least, int(tried.axes[axis])
                for value in sorted({*self.tiles[axis], *self.edges[axis], *range(least, least + SMALL)}):
                    if value < size and value % self.sizes[axis].step == 0:
                        yield replace(tried, axes={**tried.axes, axis: value})

    def groups(self) -> st.SearchStrategy[tuple[Tried, ...]]:
        """Return the strategy of cases that share what is compiled; it shrinks towards one small, usual case."""
        return _groups(self)


def space_of(matrix: Matrix, cell: Cell, entry: PlatformToolchain) -> Space:
    """Return the cases that may be tried in a cell."""
    op, section = matrix.ops[cell.op], matrix.fuzz
    declared = {axis: _values([op], axis) for axis in op.axes if axis != SEED}
    names = [axis for axis in declared if _is_size(matrix, axis) or axis in section.sizes]
    own = {axis: as_list(values) for axis, values in entry.cases.items() if axis in declared}
    sizes = {axis: _bounds(section, cell, op, axis) for axis in names if axis not in own}
    tiles = section.tiles.get(cell.backend, {})
    finite = section.not_finite
    takes_all = cell.op in finite or f"{cell.op}.{cell.direction}" in finite
    return Space(
        cell.op,
        cell.direction,
        sizes,
        {axis: _around_tiles(bounds, tiles.get(axis, ())) for axis, bounds in sizes.items()},
        {axis: edges(bounds.least, bounds.most, map(int, declared[axis])) for axis, bounds in sizes.items()},
        {axis: own.get(axis, _default_first(op, axis, declared[axis])) for axis in declared if axis not in sizes},
        frozenset(section.free or declared),
        tuple(declared),
        section.elements.get(cell.toolchain, _MOST[cell.action]),
        tuple(kind for kind in KINDS if takes_all or kind not in NOT_FINITE)
        if cell.backend != matrix.package.reference
        else (),
    )


def _values(ops: Sequence[Op], axis: str) -> list[Scalar]:
    """Return all values of an axis in the cases of operators, without those that are timed."""
    groups = [group for op in ops if axis in op.axes for tier in op.cases.values() for group in tier]
    values = [value for group in groups if axis in group for value in as_list(group[axis])]
    values += [op.defaults[axis] for op in ops if axis in op.axes and axis in op.defaults]
    return list(dict.fromkeys(values))


def _is_size(matrix: Matrix, axis: str) -> bool:
    """Return whether the values of an axis are whole numbers in every operator, and more than one."""
    values = _values(list(matrix.ops.values()), axis)
    return len(values) > 1 and all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _bounds(section: Fuzz, cell: Cell, op: Op, axis: str) -> Bounds:
    """Return the bounds of a size: matrix.yaml's bounds, or from one to the largest of the quick cases."""
    for name in (f"{cell.op}.{axis}", axis):
        if name in section.sizes:
            return section.sizes[name]
    return Bounds(most=max(int(axes[axis]) for _, axes in expand(op, "quick", cell.direction)))


def _around_tiles(bounds: Bounds, tiles: Iterable[int]) -> list[int]:
    """Return the sizes at which one tile or several end, with their neighbours."""
    return around(bounds.least, bounds.most, {tile * times for tile in tiles for times in (1, 2, 3, 4)})


def _default_first(op: Op, axis: str, values: list[Scalar]) -> list[Scalar]:
    if axis not in op.defaults:
        return values
    return [op.defaults[axis], *(value for value in values if value != op.defaults[axis])]


@st.composite
def _groups(draw: st.DrawFn, space: Space) -> tuple[Tried, ...]:
    """Draw the axes for which something is compiled, and several cases that have them."""
    compiled = _axes(draw, space, [axis for axis in space.order if axis not in space.free], space.most)
    elements = math.prod(int(compiled[axis]) for axis in space.sizes if axis in compiled)
    return tuple(
        _case(draw, space, compiled, max(1, space.most // max(1, elements)))
        for _ in range(draw(st.integers(1, _TOGETHER)))
    )


def _case(draw: st.DrawFn, space: Space, compiled: Mapping[str, Scalar], most: int) -> Tried:
    """Draw the other axes, the values and the seed."""
    axes = {**compiled, **_axes(draw, space, [axis for axis in space.order if axis in space.free], most)}
    rules = draw(unusual_values(space.tensors, space.kinds))
    views = draw(st.integers(0, 3)) == 3
    in_order = {axis: axes[axis] for axis in space.order}
    return Tried(space.op, space.direction, in_order, views, rules, draw(st.integers(0, 999)))


def _axes(draw: st.DrawFn, space: Space, axes: Sequence[str], most: int) -> dict[str, Scalar]:
    """Draw some axes. The sizes come in any order: each takes its part of the elements that a case may have."""
    chosen: dict[str, Scalar] = {}
    sizes = [axis for axis in axes if axis in space.sizes]
    for axis in draw(st.permutations(sizes)) if len(sizes) > 1 else sizes:
        bounds = space.sizes[axis]
        largest = max(bounds.least, min(bounds.most, most))
        size = draw(size_between(bounds.least, largest, space.tiles[axis], space.edges[axis]))
        step = bounds.step
        chosen[axis] = size = max(step, min(-(-size // step), bounds.most // step) * step)
        most //= max(1, size)
    for axis in axes:
        if axis not in space.sizes:
            chosen[axis] = draw(st.sampled_from(list(space.others[axis])))
    return chosen
