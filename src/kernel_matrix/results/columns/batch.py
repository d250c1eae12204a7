"""The results of one file as Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any

import pyarrow as pa

from kernel_matrix.results.columns.schema import CASES, FIGURES, JOBS, OUTPUTS, output_and_figure
from kernel_matrix.results.record import Record

_COLUMNS = frozenset(FIGURES)
_Places = tuple[tuple[int, str], ...]  # the places of figures in the list of values, with their names


@dataclass(frozen=True)
class Batch:
    """The jobs, the cases and the figures of the outputs of one file."""

    jobs: pa.Table
    cases: pa.Table
    outputs: pa.Table


@dataclass(frozen=True)
class _Layout:
    """The places of a record's figures, by the names of its metrics. Most records share one of a few layouts.

    ``outputs`` has the name of each output, a function that takes its row out of the values, and its other figures.
    """

    outputs: tuple[tuple[str, Callable[[Sequence[float | None]], tuple[float | None, ...]], _Places], ...]
    rest: _Places


@dataclass
class BatchBuilder:
    """Collect records in lists by column; a list becomes an Arrow array at the end."""

    jobs: list[tuple[int, list[tuple[str, str]]]] = field(default_factory=list)
    _cases: list[tuple[Any, ...]] = field(default_factory=list)
    _outputs: list[tuple[Any, ...]] = field(default_factory=list)

    def add_job(self, facts: Mapping[str, str]) -> int:
        """Add the next suite, with the facts of its job, and return its place."""
        self.jobs.append((len(self.jobs), list(facts.items())))
        return len(self.jobs) - 1

    def add(
        self,
        suite: int,
        head: tuple[str, str, str, str, str, str, float, Sequence[str]],
        facts: Sequence[tuple[str, str]],
        names: tuple[str, ...],
        values: Sequence[float],
    ) -> None:
        """Add a record of a suite.

        ``head`` has its case, outcome, action, stage, message, detail, seconds and attempts; ``names`` and ``values``
        are its metrics.
        """
        layout = _layout(names)
        place = len(self._cases)
        given = [*values, None]  # None stands for a figure that the record does not have
        for number, (output, row, others) in enumerate(layout.outputs):
            self._outputs.append(
                (place, number, output, *row(given), [(name, values[metric]) for metric, name in others])
            )
        figures = [(name, values[metric]) for metric, name in layout.rest]
        self._cases.append((suite, place, *head, facts, figures))

    @property
    def batch(self) -> Batch:
        """The tables."""
        return Batch(
            _table(self.jobs, JOBS),
            _table(self._cases, CASES),
            _table(self._outputs, OUTPUTS),
        )


def of_records(records: Iterable[Record]) -> Batch:
    """Return the tables of records. Those that share the object of their job are of one suite."""
    builder = BatchBuilder()
    suites: dict[int, tuple[int, Mapping[str, str]]] = {}  # the job is kept, so that no other object gets its id
    for r in records:
        if id(r.job) not in suites:
            suites[id(r.job)] = builder.add_job(r.job), r.job
        head = (r.case, r.outcome, r.action, r.stage, r.message, r.detail, float(r.seconds), list(r.attempts))
        values = [float(value) for value in r.metrics.values()]
        builder.add(suites[id(r.job)][0], head, list(r.facts.items()), tuple(r.metrics), values)
    return builder.batch


@lru_cache(maxsize=4096)
def _layout(names: tuple[str, ...]) -> _Layout:
    outputs: dict[str, dict[str, int]] = {}
    rest: list[tuple[int, str]] = []
    for place, name in enumerate(names):
        if (parts := output_and_figure(name)) is None:
            rest.append((place, name))
        else:
            outputs.setdefault(parts[0], {})[parts[1]] = place
    rows = []
    for output, figures in outputs.items():
        row = itemgetter(*(figures.get(name, len(names)) for name in FIGURES))
        rows.append((output, row, tuple((place, name) for name, place in figures.items() if name not in _COLUMNS)))
    return _Layout(tuple(rows), tuple(rest))


def _table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
