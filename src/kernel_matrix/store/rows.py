"""Records -> tables of Arrow: the tables of one run, with their files, and the tables that go into the database."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kernel_matrix.base.files import written_whole
from kernel_matrix.store.record import BENCH, HEAD, Record, is_probe_record, output_and_figure
from kernel_matrix.store.schema import FACTS_OF_CASE, FACTS_OF_JOB, FIGURES, SCHEMAS, VERSION

_LEVEL = 9  # of zstd: a tenth smaller than the usual 3, and still a few milliseconds for a job

_PARTS = ("platform", "target", "toolchain", "op", "direction", "name")


def tables(run: str, job: Mapping[str, str], records: Sequence[Record]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the four tables of a run, in the order in which they are written: the table of jobs comes last."""
    batch = of_records(replace(record, run=run, job=job) for record in records)
    yield "samples", _table(SCHEMAS["samples"], [*sample_rows(run, records)])
    cases = batch.cases.column("case").take(batch.outputs.column("place"))
    yield "outputs", _joined("outputs", batch.outputs, {"run": [run] * len(cases), "case": cases})
    more = {
        "run": [run] * len(records),
        **dict(zip(_PARTS, zip(*map(parts_of, records), strict=True), strict=False)),
        **{column: [record.facts.get(fact, "") for record in records] for column, fact in FACTS_OF_CASE.items()},
    }
    yield "cases", _joined("cases", batch.cases, more)
    yield "jobs", _table(SCHEMAS["jobs"], [job_row(run, job)])


def _joined(table: str, known: pa.Table, more: Mapping[str, Any]) -> pa.Table:
    """Return a table of columns that are Arrow's already, and of others."""
    schema = SCHEMAS[table]
    columns = dict(zip(known.column_names, known.columns, strict=True)) | dict(more)
    arrays = [columns.get(field.name, ()) for field in schema]  # without records some are not there
    return pa.Table.from_arrays(
        [a if isinstance(a, pa.ChunkedArray) else pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)],
        schema=schema,
    )


def write_table(path: Path, table: pa.Table, level: int = _LEVEL) -> None:
    """Write a table as a Parquet file; ``level`` is of zstd."""
    with (
        written_whole(path) as part,
        pq.ParquetWriter(
            part,
            table.schema,
            compression="zstd",
            compression_level=level,
            store_schema=False,  # Parquet's own types say enough, and Arrow's copy of the schema has kilobytes
            write_statistics=["run", "case"],  # statistics of other columns would be larger than a small job
        ) as file,
    ):
        file.write_table(table)
        file.add_key_value_metadata(dict(table.schema.metadata))


def job_row(run: str, facts: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the row of a job."""
    *named, lock = (facts.get(fact, "") for fact in FACTS_OF_JOB.values())
    times = _moment(facts.get("started", "")), _number(facts.get("seconds", ""))
    return run, *named, *times, lock, list(facts.items()), VERSION


def sample_rows(run: str, records: Sequence[Record]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each sample of each record."""
    for record in records:
        for output, one in record.samples.items():
            yield run, record.case, output, one.dtype, list(one.shape), one.sha256, one.bits


def parts_of(record: Record) -> Sequence[str]:
    """Return the parts of a case's id; empty ones for a probe, and for an id of another form."""
    parts = record.case.removeprefix(BENCH).split("/", 4)
    op, dot, direction = parts[3].rpartition(".") if len(parts) == 5 else ("", "", "")
    return (*parts[:3], op, direction, parts[4]) if dot and not is_probe_record(record) else [""] * len(_PARTS)


def _moment(text: str) -> datetime | None:
    """Return the time in UTC, without a zone."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


_HEAD = (*HEAD, "attempts")


def _of_file(places: Mapping[str, pa.DataType], table: str, names: Iterable[str]) -> pa.Schema:
    """Return the schema of a table of a file, which may be of several suites: places, and columns of the table."""
    return pa.schema([*places.items(), *((name, SCHEMAS[table].field(name).type) for name in names)])


JOBS = _of_file({"suite": pa.int32()}, "jobs", ("run", "facts"))
# The places of the suite and of the record in the file.
CASES = _of_file({"suite": pa.int32(), "place": pa.int64()}, "cases", (*_HEAD, "facts", "figures"))
# The place of the record, and of the output in its record.
OUTPUTS = _of_file({"place": pa.int64(), "row_place": pa.int32()}, "outputs", ("output", *FIGURES, "others"))
_PLACES = {name: place for place, name in enumerate(FIGURES)}
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
    """Return the tables of records. Records of one run that follow one another are of one suite."""
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
