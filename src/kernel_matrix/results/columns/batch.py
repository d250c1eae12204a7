"""The results of one file as Arrow tables."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kernel_matrix.results.columns.schema import CASES, FIGURES, JOBS, OUTPUTS
from kernel_matrix.results.limits import output_and_figure
from kernel_matrix.results.record import Record

_PLACES = {name: place for place, name in enumerate(FIGURES)}
_HEAD = ("case", "outcome", "action", "stage", "message", "detail", "seconds", "attempts")
_Places = tuple[tuple[int, str], ...]  # the places of figures in the list of values, with their names


@dataclass(frozen=True)
class Batch:
    """The jobs, the cases and the figures of the outputs of one file."""

    jobs: pa.Table
    cases: pa.Table
    outputs: pa.Table


@dataclass(frozen=True)
class _Output:
    """An output in a layout: the columns of its figures with their places among the values, and its other figures."""

    name: str
    columns: tuple[int, ...]
    places: tuple[int, ...]
    others: _Places


@dataclass(frozen=True)
class _Layout:
    """The places of a record's figures, by the names of its metrics. Most records share one of a few layouts."""

    outputs: tuple[_Output, ...]
    names: tuple[str, ...]  # the figures that are of no output
    places: tuple[int, ...]


@dataclass
class _Group:
    """The records of one layout: their places in the file, and all their values one after the other."""

    layout: _Layout
    places: list[int] = field(default_factory=list)
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class _Maps:
    """A column of maps: the number of entries in each row, and the keys and the values of all rows."""

    lengths: list[int] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def add(self, keys: Sequence[str], values: Iterable[Any]) -> None:
        """Add the map of the next row."""
        self.lengths.append(len(keys))
        self.keys += keys
        self.values += values

    def array(self, kind: pa.MapType) -> pa.Array:
        """Return the column."""
        offsets = pa.array([0, *accumulate(self.lengths)], pa.int32())
        keys, items = pa.array(self.keys, kind.key_type), pa.array(self.values, kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items).cast(kind)


def of_records(records: Iterable[Record]) -> Batch:
    """Return the tables of records. Those of one run that follow one another are of one suite."""
    jobs: list[tuple[int, str, list[tuple[str, str]]]] = []
    suites: list[int] = []
    heads: list[tuple[Any, ...]] = []
    facts, figures, groups = _Maps(), _Maps(), dict[tuple[str, ...], _Group]()
    for (run, job), of_run in groupby(records, key=lambda record: (record.run, record.job)):
        jobs.append((len(jobs), run, list(job.items())))
        for r in of_run:
            names, values = tuple(r.metrics), [float(value) for value in r.metrics.values()]
            group = groups.get(names) or groups.setdefault(names, _Group(_layout(names)))
            group.places.append(len(heads))
            group.values.fromlist(values)
            suites.append(len(jobs) - 1)
            head = r.case, r.outcome, r.action, r.stage, r.message, r.detail, float(r.seconds), list(r.attempts)
            heads.append(head)
            facts.add(tuple(r.facts), r.facts.values())
            figures.add(group.layout.names, map(values.__getitem__, group.layout.places))
    return Batch(_table(JOBS, jobs), _cases(suites, heads, facts, figures), _outputs([*groups.values()]))


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for field, column in zip(schema, columns, strict=True)], schema=schema
    )


def _cases(suites: Sequence[int], heads: Sequence[tuple[Any, ...]], facts: _Maps, figures: _Maps) -> pa.Table:
    first = [pa.array(suites, pa.int32()), pa.array(range(len(heads)), pa.int64())]
    of_heads = _table(pa.schema([CASES.field(name) for name in _HEAD]), heads).columns
    maps = [column.array(CASES.field(name).type) for name, column in (("facts", facts), ("figures", figures))]
    return pa.Table.from_arrays([*first, *of_heads, *maps], schema=CASES)


@lru_cache(maxsize=4096)
def _layout(names: tuple[str, ...]) -> _Layout:
    of_outputs: dict[str, dict[str, int]] = {}
    rest: list[tuple[int, str]] = []
    for place, name in enumerate(names):
        if (parts := output_and_figure(name)) is None:
            rest.append((place, name))
        else:
            of_outputs.setdefault(parts[0], {})[parts[1]] = place
    outputs = []
    for output, figures in of_outputs.items():
        columns = tuple(_PLACES[name] for name in figures if name in _PLACES)
        places = tuple(place for name, place in figures.items() if name in _PLACES)
        others = tuple((place, name) for name, place in figures.items() if name not in _PLACES)
        outputs.append(_Output(output, columns, places, others))
    return _Layout(tuple(outputs), tuple(name for _, name in rest), tuple(place for place, _ in rest))


def _outputs(groups: Sequence[_Group]) -> pa.Table:
    """Return a row for each output of each record, in the order of the records and of their outputs."""
    rows = sum(len(group.places) * len(group.layout.outputs) for group in groups)
    names: dict[str, int] = {}
    record, place, name = np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int32)
    figures, known = np.zeros((len(FIGURES), rows)), np.zeros((len(FIGURES), rows), bool)
    others: dict[int, list[tuple[str, float]]] = {}  # by row: few outputs have any
    first = 0
    for group in groups:
        values = np.frombuffer(group.values).reshape(len(group.places), -1) if group.layout.outputs else None
        for number, output in enumerate(group.layout.outputs):
            part = slice(first, first + len(group.places))
            record[part], place[part] = group.places, number
            name[part] = names.setdefault(output.name, len(names))
            figures[output.columns, part] = values[:, output.places].T  # type: ignore[index]
            known[output.columns, part] = True
            if output.others:
                for row, of_record in enumerate(values[:, [p for p, _ in output.others]].tolist(), first):  # type: ignore[index]
                    others[row] = [(other, value) for (_, other), value in zip(output.others, of_record, strict=True)]
            first = part.stop
    order = np.lexsort((place, record))
    return pa.Table.from_arrays(
        [
            pa.array(record[order]),
            pa.array(place[order]),
            pa.array([*names], pa.string()).take(pa.array(name[order])),
            *(pa.array(column[order], mask=~has[order]) for column, has in zip(figures, known, strict=True)),
            _others(others, order),
        ],
        schema=OUTPUTS,
    )


def _others(others: Mapping[int, list[tuple[str, float]]], order: npt.NDArray[np.int64]) -> pa.Array:
    """Return the column of the figures without a column of their own, with its rows in this order."""
    kind = OUTPUTS.field("others").type
    maps = _Maps()
    if not others:
        return pa.MapArray.from_arrays(
            pa.array(np.zeros(len(order) + 1, np.int32)), pa.array([], kind.key_type), pa.array([], kind.item_type)
        ).cast(kind)
    for row in order.tolist():
        pairs = others.get(row, [])
        maps.add([name for name, _ in pairs], [value for _, value in pairs])
    return maps.array(kind)
