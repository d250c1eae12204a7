"""Cells with their cases as models -> columns, for the few cases that are held as objects."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np

from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.report.document import CaseResult, Cell, Number
from kernel_matrix.report.page_columns import TEXTS, Cases, Outputs
from kernel_matrix.report.page_overview import LETTERS
from kernel_matrix.report.page_packed import Flags, Floats, Ints, Objects
from kernel_matrix.report.page_script import encoded

_T = TypeVar("_T", bound=Hashable)


def cases_of(cells: Sequence[Cell]) -> Cases:
    """Return the cases of some cells as columns."""
    results = [result for cell in cells for result in cell.results]
    names: dict[str, int] = {}
    texts = {"": 0}
    repeats = [r.repeat.replace(f"{cell.id}/{r.name}", "{case}") for cell in cells for r in cell.results]
    of_texts = [*([getattr(r, key) for r in results] for key in TEXTS[:-1]), repeats]
    diagnoses: dict[Any, int] = {}
    diagnosis = [-1 if r.diagnosis is None else _place(diagnoses, r.diagnosis) for r in results]
    return Cases(
        name=_ints(_place(names, r.name) for r in results),
        names=list(names),
        state=np.frombuffer("".join(LETTERS[r.state] for r in results).encode(), np.uint8),
        evidence=np.frombuffer("".join(str(EVIDENCE.index(r.evidence)) for r in results).encode(), np.uint8),
        text=_ints(_place(texts, text) for column in of_texts for text in column).reshape(len(TEXTS), -1),
        texts=list(texts),
        diagnosis=_ints(diagnosis),
        diagnoses=list(diagnoses),
        job=_ints(-1 if r.job is None else r.job for r in results),
        seconds=np.array([r.seconds for r in results], np.float64),
        facts=Objects.of([encoded(r.facts).decode() for r in results]),
        artifact=Objects.of([encoded(r.artifact).decode() for r in results]),
        times={place: asdict(r.times) for place, r in enumerate(results) if r.times},
        attempts={place: list(r.attempts) for place, r in enumerate(results) if r.attempts},
        outputs=_outputs(results),
    )


def _outputs(results: Sequence[CaseResult]) -> Outputs:
    names: dict[str, int] = {}
    name = _ints(_place(names, output) for result in results for output in result.outputs)
    rows = [figures for result in results for figures in result.outputs.values()]
    figures = dict.fromkeys(figure for row in rows for figure in row)
    columns = {figure: _column([row.get(figure) for row in rows]) for figure in figures}
    return Outputs(
        first=np.cumsum([0, *(len(result.outputs) for result in results)], dtype=np.int64),
        names=list(names),
        name=name,
        figures={figure: values for figure, (values, _) in columns.items()},
        absent={figure: absent for figure, (_, absent) in columns.items()},
    )


def _column(values: Sequence[Number | None]) -> tuple[Floats, Flags]:
    """Return numbers as an array, and which of them are absent."""
    numbers = [math.nan if value is None else float(value) for value in values]
    return np.array(numbers, np.float64), np.array([value is None for value in values], np.bool_)


def _place(places: dict[_T, int], value: _T) -> int:
    return places.setdefault(value, len(places))


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int32)
