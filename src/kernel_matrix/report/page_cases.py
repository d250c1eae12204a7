"""The judge's rows of cases and their outputs -> Arrow tables in the order of the page, and the part of each file.

DuckDB gives the cases of many cells at once. Python handles distinct values only, such as each error text and each
command. The page rounds numbers to five digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.report.cells import OCCUPANCY, Sources
from kernel_matrix.report.diagnoses import DIAGNOSED
from kernel_matrix.report.scripts import encoded, shortened
from kernel_matrix.results.noise import MOST_ELEMENTS
from kernel_matrix.results.repeat import is_plain
from kernel_matrix.results.states import STATES
from kernel_matrix.store.database import Connection, enter, temporary
from kernel_matrix.store.record import Record
from kernel_matrix.store.schema import FIGURES

AT_ONCE = 30_000  # cases that are asked for at one time
TEXTS = ("reason", "stale", "stage", "action", "message", "detail", "repeat")
_AS_THEY_ARE = ("state", "evidence", "seconds", "facts", "artifact", "times", "attempts")
# The figures of every output in the page's data. The noise ratio is computed, and never taken from a record.
_PAGE_FIGURES = (*(name for name in FIGURES if name != "noise_ratio"), "noise_ratio")
_MOST = 2**62
_FEW = 256  # distinct values whose places are bytes
_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cases:
    """Cases in the order of the page. The outputs of the case at a place are from ``first[place]`` on."""

    cases: pa.Table
    outputs: pa.Table
    first: _Longs

    @classmethod
    def of(cls, cases: Mapping[str, Any], outputs: pa.Table) -> Cases:
        """Return cases with their outputs, whose column ``case`` is ascending."""
        table = pa.table(dict(cases))
        counts = np.bincount(_numbers(outputs, "case"), minlength=table.num_rows)
        return cls(table, outputs, np.concatenate([[0], np.cumsum(counts)]))

    def outputs_of(self, start: int, end: int) -> int:
        """Return how many outputs the cases from ``start`` to ``end`` have."""
        return int(self.first[end] - self.first[start])

    @cached_property
    def names(self) -> list[str]:
        """The names of all cases."""
        names: list[str] = self.cases.column("name").to_pylist()
        return names

    @cached_property
    def states(self) -> npt.NDArray[np.uint8]:
        """The places of the states of all cases among all states."""
        return _numbers(self.cases, "state")

    def written(self, start: int, end: int) -> tuple[bytes, bytes]:
        """Return the cases from ``start`` to ``end`` and their outputs as Arrow streams."""
        outputs = self.outputs.slice(self.first[start], self.outputs_of(start, end))
        place = outputs.schema.get_field_index("case")
        of_file = pa.array(_numbers(outputs, "case") - start, pa.int32())
        return _stream(self.cases.slice(start, end - start)), _stream(outputs.set_column(place, "case", of_file))


def _stream(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream, without the columns and the texts that no row has."""
    columns = {
        name: _coded(column)
        for name, column in zip(table.column_names, map(_whole, table.columns), strict=True)
        if column.null_count < len(column) or not len(column)
    }
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _coded(column: pa.Array) -> pa.Array:
    """Return a column with each value once where that is shorter, and without the values that a slice leaves out."""
    if pa.types.is_dictionary(column.type):
        return _used(column)
    if pa.types.is_floating(column.type):
        coded = column.dictionary_encode()
        if len(coded.dictionary) < min(_FEW, len(column) // 2):
            return pa.DictionaryArray.from_arrays(coded.indices.cast(pa.uint8()), coded.dictionary)
    return pa.concat_arrays([column])  # the stream of a slice would have more than its values


def _used(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a coded column with the values that are used, and bytes as places where these are few."""
    indices = column.indices.fill_null(-1) if column.null_count else column.indices
    places = indices.to_numpy()
    is_used = np.zeros(len(column.dictionary) + 1, np.bool_)  # the last place is for -1, which stands for null
    is_used[places] = True
    used = np.flatnonzero(is_used[:-1])
    kind = np.uint8 if used.size <= _FEW else np.int32
    numbers = (np.cumsum(is_used) - 1).astype(kind)[places]
    of_file = pa.array(numbers, mask=places < 0 if column.null_count else None)
    return pa.DictionaryArray.from_arrays(of_file, column.dictionary.take(pa.array(used)))


class PageCases:
    """Ask DuckDB for the cases of cells, and complete them with what follows from the plan and from the jobs."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        planned, commands = sources.judged.planned, sources.commands
        self._names = pa.array([named.name for named in planned.names], pa.string())
        self._quick = np.array([commands.is_quick(f"{n.op}.{n.direction}", n.name) for n in planned.names], np.bool_)
        self._safe_name = np.array([is_plain(named.name) for named in planned.names], np.bool_)
        self._safe_cell = np.array([is_plain(cell.id) for cell in planned.cells], np.bool_)
        platforms: dict[str, int] = {}
        self._platform = np.array([platforms.setdefault(c.platform, len(platforms)) for c in planned.cells], np.int32)
        self._jobs = pa.array([encoded(job).decode() for job in sources.jobs], pa.string())

    def cells(self, order: Sequence[int]) -> Iterator[tuple[Cases, int]]:
        """Yield, for each cell in this order, the tables that have its cases, and the place of the first of them."""
        _order_cases(self._sources.judged.connection, order)
        sizes = [self._sources.cells[cell].planned for cell in order]
        parts = _parts(sizes)
        with ThreadPoolExecutor(1) as pool:  # one part is asked for while the one before it is written
            coming = [pool.submit(self._asked, *part) for part in parts[:1]]
            for number, (first, last) in enumerate(parts):
                answer = coming.pop().result()
                if number + 1 < len(parts):
                    coming.append(pool.submit(self._asked, *parts[number + 1]))
                cases, place = self._completed(*answer), 0
                while place <= last - first:
                    yield cases, place
                    place += sizes.pop(0)

    def _asked(self, first: int, last: int) -> tuple[pa.Table, pa.Table]:
        """Return the cases from a place to another, and their outputs."""
        connection = self._sources.judged.connection
        cases = connection.sql(_CASES, params=[first, last]).to_arrow_table()
        outputs = connection.sql(_OUTPUTS, params=[first, last]).to_arrow_table()
        return cases, outputs.sort_by(_IN_ORDER)

    def _completed(self, table: pa.Table, outputs: pa.Table) -> Cases:
        cell, named, job = (_numbers(table, name) for name in ("cell", "named", "job"))
        texts = _Texts()
        text = {key: texts.places(table.column(key)) for key in TEXTS if key != "repeat"}
        diagnosis = self._diagnoses(table, job, text, texts)
        text["message"] = np.where(text["message"] == text["reason"], 0, text["message"])
        text["repeat"] = self._repeats(table, cell, named, job, texts)
        place_of_job = self._by_job(job, lambda number: self._sources.places_of_jobs.get(number, -1))
        every = pa.array(map(shortened, texts.texts), pa.string())
        return Cases.of(
            {
                "name": pa.DictionaryArray.from_arrays(pa.array(named), self._names),
                **{key: pa.DictionaryArray.from_arrays(pa.array(text[key]), every) for key in TEXTS},
                "diagnosis": diagnosis,
                "job": pa.DictionaryArray.from_arrays(pa.array(place_of_job, mask=place_of_job < 0), self._jobs),
                **{name: table.column(name) for name in _AS_THEY_ARE},
            },
            _outputs(outputs),
        )

    def _by_job(self, jobs: _Longs, value: Callable[[int], int]) -> _Ints:
        """Return a number for each job; equal jobs are asked for once."""
        distinct, inverse = np.unique(jobs, return_inverse=True)
        return np.array([value(job) for job in distinct.tolist()], np.int32)[inverse]

    def _diagnoses(self, table: pa.Table, job: _Longs, text: Mapping[str, _Ints], texts: _Texts) -> pa.DictionaryArray:
        """Return the diagnoses of the cases that have one, as JSON."""
        places = np.flatnonzero(_IS_DIAGNOSED[_numbers(table, "state")] & (job >= 0))
        outcome = texts.places(table.column("outcome"))
        error = (text[key] for key in ("stage", "message", "detail", "reason"))
        every: list[npt.NDArray[Any]] = [job, outcome, *error]
        columns = [column[places] for column in every]
        first, inverse = _distinct(columns)
        of_jobs, *rest = (column[first].tolist() for column in columns)
        words = ([texts.texts[place] for place in places] for places in rest)
        known: dict[str, int] = {}
        found = self._sources.diagnoses.of([*zip(of_jobs, *words, strict=True)])
        numbers = [known.setdefault(encoded(asdict(one)).decode(), len(known)) for one in found]
        place = np.full(len(job), -1, np.int32)
        place[places] = np.array(numbers, np.int32)[inverse]
        return pa.DictionaryArray.from_arrays(pa.array(place, mask=place < 0), pa.array([*known], pa.string()))

    def _repeats(self, table: pa.Table, cell: _Ints, named: _Ints, job: _Longs, texts: _Texts) -> _Ints:
        """Return the command that repeats each case, with ``{case}`` for its id. Equal commands are made once."""
        image, lock = _Texts(), _Texts()
        columns = (
            self._platform[cell],
            job,
            image.places(table.column("image")),
            lock.places(table.column("lock")),
            self._quick[named],
            # A command that the shell must be told to leave as it stands is made for each case.
            np.where(self._safe_cell[cell] & self._safe_name[named], -1, np.arange(len(cell))),
        )
        first, inverse = _distinct(columns)
        commands = [
            self._command(cell[at], named[at], int(job[at]), image.texts[columns[2][at]], lock.texts[columns[3][at]])
            for at in first.tolist()
        ]
        return np.array([texts.place(command) for command in commands], np.int32)[inverse]

    def _command(self, cell: int, named: int, job: int, image: str, lock: str) -> str:
        planned = self._sources.judged.planned
        identity, record = f"{planned.cells[cell].id}/{planned.names[named].name}", None
        if job >= 0:
            known = {"image": image, "lock.sha256": lock}
            record = Record(identity, "pass", facts=known, job=self._sources.judged.jobs[job])
        return self._sources.commands.command(identity, record).replace(identity, "{case}")


class _Texts:
    """Texts, each once; the first is empty."""

    def __init__(self) -> None:
        self.texts = [""]
        self._places = {"": 0}

    def place(self, text: str) -> int:
        """Return the place of a text."""
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
        return self._places[text]

    def places(self, column: pa.ChunkedArray) -> _Ints:
        """Return the places of the texts of a column."""
        coded = column.combine_chunks().dictionary_encode()
        places = np.array([self.place(text) for text in coded.dictionary.to_pylist()], np.int32)
        return places[coded.indices.to_numpy()] if len(places) else np.zeros(0, np.int32)


def _outputs(table: pa.Table) -> pa.Table:
    """Return the outputs with a column for each figure. Few results have figures that have no column."""
    columns = {name: _whole(table.column(name)) for name in _PAGE_FIGURES}
    others: dict[str, list[float | None]] = {}
    found = table.column("others")
    for index, values in enumerate(found.to_pylist() if found.null_count < len(found) else ()):
        for name, value in values or ():
            if name not in columns:
                others.setdefault(name, [None] * table.num_rows)[index] = value
    columns |= {name: pa.array(values, pa.float64()) for name, values in others.items()}
    return pa.table(
        {
            "case": table.column("case"),
            "output": _whole(table.column("output")).dictionary_encode(),
            **columns,
        }
    )


def _distinct(columns: Sequence[npt.NDArray[Any]]) -> tuple[_Longs, _Longs]:
    """Return where each distinct row of the columns stands first, and for each row the number of its distinct row."""
    together, size = np.zeros(len(columns[0]), np.int64), 1  # a number below ``size`` for each row
    for column in columns if len(together) else ():
        least = int(column.min())
        span = int(column.max()) - least + 1
        if size * span > _MOST:
            together = np.unique(together, return_inverse=True)[1]
            size = len(together)
        together = together * span + (column - least)
        size *= span
    first, rows = np.unique(together, return_index=True, return_inverse=True)[1:]
    return first, rows


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = _whole(table.column(name)).to_numpy(zero_copy_only=False)
    return values


def _parts(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last place of cases that are asked for together, so that no cell is cut."""
    parts: list[tuple[int, int]] = []
    first = place = 0
    for size in sizes:
        if place - first >= AT_ONCE:
            parts.append((first, place - 1))
            first = place
        place += size
    return [*parts, (first, place - 1)] if place > first else parts


def _order_cases(connection: Connection, cells: Sequence[int]) -> None:
    """Make ``page_cases``: the verdicts with the place of each on the page, whose cells have this order."""
    schema = pa.schema({"cell": pa.int32(), "rank": pa.int32()})
    enter(connection, "page_cells", schema, {"cell": list(cells), "rank": range(len(cells))})
    temporary(
        connection,
        "page_cases",
        """
        SELECT row_number() OVER (ORDER BY rank, planned) - 1 AS place, cell, named, v.*
        FROM verdicts v JOIN planned p USING (planned) JOIN page_cells USING (cell) ORDER BY place
        """,
    )


def _magnitude(value: str) -> str:
    return f"CASE WHEN isnan({value}) OR {value} < 0 THEN 'inf'::DOUBLE ELSE {value} END"


_IS_DIAGNOSED = np.array([state in DIAGNOSED for state in STATES])
_STATES = ", ".join(f"'{state}'" for state in STATES)
_EVIDENCE = ", ".join(f"'{level}'" for level in EVIDENCE)
_SECONDS = ", ".join(
    f"'{name}': format('{{:.5g}}', c.figures['time.{figure}'])::DOUBLE"
    for name, figure in (("run", "run"), ("baseline", "eager"), ("ratio", "ratio"))
)
_IS_TIMED = " AND ".join(f"c.figures['time.{figure}'] IS NOT NULL" for figure in ("run", "eager", "ratio", "rounds"))
# The cases of some places, in order.
_CASES = f"""
    SELECT p.cell, p.named, (list_position([{_STATES}], p.state) - 1)::UTINYINT AS state,
           (list_position([{_EVIDENCE}], p.evidence) - 1)::UTINYINT AS evidence, p.reason, p.stale,
           coalesce(c.job, -1) AS job, coalesce(c.outcome, '') AS outcome, coalesce(c.action, '') AS action,
           coalesce(c.stage, '') AS stage, coalesce(c.message, '') AS message, coalesce(c.detail, '') AS detail,
           coalesce(c.seconds, 0) AS seconds, CASE WHEN len(c.attempts) > 0 THEN c.attempts END AS attempts, c.facts,
           coalesce(c.facts['image'], '') AS image, coalesce(c.facts['lock.sha256'], '') AS lock,
           map_from_entries([{{'key': substring(e.key, 10), 'value': e.value}}
               FOR e IN map_entries(c.figures) IF starts_with(e.key, 'artifact.')]
               || [{{'key': 'occupancy', 'value': o}} FOR o IN [{OCCUPANCY}] IF o IS NOT NULL]) AS artifact,
           CASE WHEN {_IS_TIMED} THEN {{{_SECONDS}, 'rounds': trunc(c.figures['time.rounds'])::INTEGER}} END AS times
    FROM page_cases p LEFT JOIN cases c ON c.record = p.record
    WHERE p.place BETWEEN $1 AND $2 ORDER BY p.place
"""
_SHARE = "(error / floor)"
# Their outputs. ``case`` is the place of the case from the first of these cases on, and ``place`` orders the outputs
# of a case. They come in any order: DuckDB would sort whole rows, and Arrow sorts these two columns (``_IN_ORDER``).
_OUTPUTS = f"""
    WITH of_outputs AS (
        SELECT p.place - $1 AS of_case, o.place, o.output, {", ".join(f"o.{name}" for name in _PAGE_FIGURES[:-1])},
               CASE WHEN cardinality(o.others) > 0 THEN o.others END AS others,
               least({_magnitude("coalesce(o.elements, 1)")}, {MOST_ELEMENTS}) AS weight,
               CASE WHEN coalesce(o.nan, 0) <> 0 OR coalesce(o.inf, 0) <> 0 THEN 'inf'::DOUBLE
                   ELSE {_magnitude("o.rel_fro")} END AS error,
               {_magnitude("o.floor_rel_fro")} AS floor
        FROM page_cases p JOIN outputs o ON o.record = p.record WHERE p.place BETWEEN $1 AND $2
    )
    SELECT of_case::INTEGER AS "case", place, output, others, {", ".join(_PAGE_FIGURES[:-1])},
           CASE WHEN floor > 0 AND floor < 'inf' AND weight > 0 AND rel_fro IS NOT NULL
               THEN CASE WHEN error = 0 THEN 0 ELSE sqrt(weight * {_SHARE} * {_SHARE} / weight) END END AS noise_ratio
    FROM of_outputs
"""
_IN_ORDER = [("case", "ascending"), ("place", "ascending")]
