"""Arrow tables of cases and of outputs -> the columns of the page's files. Python handles distinct values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kernel_matrix.diagnosis import Diagnosis
from kernel_matrix.report.cells import DIAGNOSED, Sources
from kernel_matrix.report.page_columns import TEXTS, Cases, Outputs
from kernel_matrix.report.page_overview import LETTERS
from kernel_matrix.report.page_packed import Flags, Floats, Ints, Objects
from kernel_matrix.report.page_sql import PAGE_FIGURES
from kernel_matrix.results.repeat import is_plain
from kernel_matrix.results.states import STATES
from kernel_matrix.store.record import Record

_LETTERS = np.frombuffer("".join(LETTERS[state] for state in STATES).encode(), np.uint8)
_DIAGNOSED = np.array([state in DIAGNOSED for state in STATES])
_ZERO = ord("0")
_MOST = 2**62


class Arrow(NamedTuple):
    """The answers of :mod:`kernel_matrix.report.page_sql` for some cases."""

    cases: pa.Table
    outputs: pa.Table


class CasesOfArrow:
    """Make columns of answers, with what follows from the plan and from the jobs."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        planned, commands = sources.judged.planned, sources.commands
        self._names = [named.name for named in planned.names]
        self._quick = np.array([commands.is_quick(f"{n.op}.{n.direction}", n.name) for n in planned.names], np.bool_)
        self._safe_name = np.array([is_plain(name) for name in self._names], np.bool_)
        self._safe_cell = np.array([is_plain(cell.id) for cell in planned.cells], np.bool_)
        platforms: dict[str, int] = {}
        self._platform = np.array([platforms.setdefault(c.platform, len(platforms)) for c in planned.cells], np.int32)

    def cases(self, arrow: Arrow) -> Cases:
        """Return the columns of some cases."""
        table = arrow.cases
        cell, named, job = (_numbers(table, name) for name in ("cell", "named", "job"))
        state = _numbers(table, "state")
        texts = _Texts()
        text = {key: texts.places(table.column(key)) for key in TEXTS if key != "repeat"}
        places_of_jobs = self._by_job(job, self._place_of_job)
        diagnoses, diagnosis = self._diagnoses(table, job, state, text, texts)
        text["message"] = np.where(text["message"] == text["reason"], 0, text["message"])
        text["repeat"] = self._repeats(table, cell, named, job, texts)
        return Cases(
            names=self._names,
            name=named,
            state=_LETTERS[state],
            evidence=(_numbers(table, "evidence") + _ZERO).astype(np.uint8),
            text=np.stack([text[key] for key in TEXTS]),
            texts=texts.texts,
            diagnoses=diagnoses,
            diagnosis=diagnosis,
            job=places_of_jobs,
            seconds=_numbers(table, "seconds"),
            facts=_objects(table.column("facts_json")),
            artifact=_objects(table.column("artifact_json")),
            times={place: _times(values) for place, values in _present(table.column("times"))},
            attempts=dict(_present(table.column("attempts"))),
            outputs=_outputs(arrow.outputs, table.num_rows),
        )

    def _by_job(self, jobs: npt.NDArray[np.int64], value: Callable[[int], int]) -> Ints:
        """Return a number for each job; equal jobs are asked for once."""
        distinct, inverse = np.unique(jobs, return_inverse=True)
        return np.array([value(job) for job in distinct.tolist()], np.int32)[inverse]

    def _place_of_job(self, number: int) -> int:
        """Return the place of a job in the document; -1 for none."""
        return self._sources.places_of_jobs.get(number, -1)

    def _diagnoses(
        self, table: pa.Table, job: npt.NDArray[np.int64], state: Ints, text: dict[str, Ints], texts: _Texts
    ) -> tuple[list[Diagnosis], Ints]:
        """Return the diagnoses of the cases that have one, and the place of each case's; -1 for none."""
        places = np.flatnonzero(_DIAGNOSED[state] & (job >= 0))
        outcome = texts.places(table.column("outcome"))
        error = (text[key] for key in ("stage", "message", "detail", "reason"))
        every: list[npt.NDArray[Any]] = [job, outcome, *error]
        columns = [column[places] for column in every]
        first, inverse = _distinct(columns)
        known: dict[Diagnosis, int] = {}
        numbers = [
            known.setdefault(self._sources.diagnoses.of(of_job, *map(texts.texts.__getitem__, rest)), len(known))
            for of_job, *rest in zip(*(column[first].tolist() for column in columns), strict=True)
        ]
        found = np.full(len(state), -1, np.int32)
        found[places] = np.array(numbers, np.int32)[inverse]
        return list(known), found

    def _repeats(self, table: pa.Table, cell: Ints, named: Ints, job: npt.NDArray[np.int64], texts: _Texts) -> Ints:
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
        identity, record = f"{self._sources.judged.planned.cells[cell].id}/{self._names[named]}", None
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

    def places(self, column: pa.ChunkedArray) -> Ints:
        """Return the places of the texts of a column."""
        coded = column.combine_chunks().dictionary_encode()
        places = np.array([self.place(text) for text in coded.dictionary.to_pylist()], np.int32)
        return places[coded.indices.to_numpy()] if len(places) else np.zeros(0, np.int32)


def _distinct(columns: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the place of the first of each distinct row of some columns, and for each row which of these it equals."""
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


def _objects(column: pa.ChunkedArray) -> Objects:
    """Return a column of JSON, in which a comma stands behind each object."""
    array = column.combine_chunks()
    if not len(array):
        return Objects.of([])
    _, offsets, text = array.buffers()
    first = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return Objects(text[first[0] : first[-1]].to_pybytes(), first - first[0])


def _numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = table.column(name).combine_chunks().to_numpy(zero_copy_only=False)
    return values


def _present(column: pa.ChunkedArray) -> list[tuple[int, Any]]:
    """Return the values that are not null, each with its place."""
    if column.null_count == len(column):
        return []
    places = np.flatnonzero(column.is_valid().to_numpy())
    return list(zip(places.tolist(), column.drop_null().to_pylist(), strict=True))


def _times(values: Sequence[float]) -> dict[str, float]:
    run, baseline, ratio, rounds = values
    return {
        "run": float(f"{run:.5g}"),
        "baseline": float(f"{baseline:.5g}"),
        "ratio": float(f"{ratio:.5g}"),
        "rounds": int(rounds),
    }


def _outputs(table: pa.Table, cases: int) -> Outputs:
    """Return the outputs of some cases. Few results have figures that have no column."""
    counts = np.bincount(_numbers(table, "of_case"), minlength=cases)
    figures: dict[str, Floats] = {name: _numbers(table, name) for name in PAGE_FIGURES}
    absent: dict[str, Flags] = {}
    for name in PAGE_FIGURES:
        column = table.column(name)
        if np.isnan(figures[name]).sum() > column.null_count:  # a result says NaN
            absent[name] = column.is_null().to_numpy()
    for place, others in _present(table.column("others")):
        for other, value in others:
            if other not in figures:
                figures[other] = np.full(table.num_rows, np.nan)
                absent[other] = np.ones(table.num_rows, np.bool_)
            figures[other][place], absent[other][place] = value, False
    names = _Texts()
    places = names.places(table.column("output"))
    return Outputs(np.concatenate([[0], np.cumsum(counts)]), names.texts, places, figures, absent)
