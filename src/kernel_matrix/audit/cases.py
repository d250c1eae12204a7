"""The columns of a file of cells -> its cases as plain dictionaries, each with its texts and figures."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from kernel_matrix.audit.figures import Shown

_SIZES = {"uint8": "B", "float32": "f", "float64": "d"}
_TEXTS = ("reason", "stale", "stage", "action", "message", "detail", "repeat")


def of_cell(cell: str, chunk: Shown, overview: Shown) -> list[dict[str, Any]]:
    """Return the cases of a cell of the file."""
    detail = chunk["cells"][cell]
    places = range(detail["first"], detail["first"] + detail["cell"]["planned"])
    outputs = _outputs(places, chunk["cases"]["outputs"])
    return [_case(place, cell, chunk, overview) | {"outputs": next(outputs)} for place in places]


def _case(place: int, cell: str, chunk: Shown, overview: Shown) -> dict[str, Any]:
    columns, texts = chunk["cases"], chunk["texts"]
    name = columns["names"][_at(columns["name"], place)]
    by_letter = {state["letter"]: state["name"] for state in overview["states"]}
    diagnosis, job = _at(columns["diagnosis"], place), _at(columns["job"], place)
    found = {key: texts[_at(columns[key], place)] for key in _TEXTS}
    return {
        **found,
        "name": name,
        "state": by_letter[columns["state"][place]],
        "evidence": overview["evidence"][int(columns["evidence"][place])],
        "seconds": number_at(columns["seconds"], place),
        "facts": columns["facts"][place] if columns["facts"] else {},
        "artifact": columns["artifact"][place] if columns["artifact"] else {},
        "times": columns["times"].get(str(place)),
        "attempts": columns["attempts"].get(str(place), []),
        "diagnosis": chunk["diagnoses"][diagnosis] if diagnosis >= 0 else None,
        "job": chunk["jobs"][job] if job >= 0 else {},
        "repeat": found["repeat"].replace("{case}", f"{cell}/{name}"),
    }


def _outputs(places: range, columns: Shown) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the outputs of the cases at some places, one case after the other."""
    counts = [_at(columns["counts"], place) for place in places]
    before = columns["counts"][: places.start]
    first = columns["counts"][0] * places.start if len(columns["counts"]) == 1 else sum(before)
    figures = {figure: numbers_at(column, first, first + sum(counts)) for figure, column in columns["figures"].items()}
    rows = iter(range(sum(counts)))
    for count in counts:
        outputs = {}
        for row in islice(rows, count):
            name = columns["names"][_at(columns["name"], first + row)]
            values = ((figure, column[row]) for figure, column in figures.items())
            outputs[name] = {figure: value for figure, value in values if value is not None}
        yield outputs


def _at(column: list[int], place: int) -> int:
    """Return the value of a place; of a list of one it is that."""
    return column[0] if len(column) == 1 else column[place]


def number_at(column: Any, place: int) -> float | str | None:
    """Return the number of a place; none if it was not measured.

    Raises:
        KeyError: the column is of no kind that there is.
    """
    return numbers_at(column, place, place + 1)[0]


def numbers_at(column: Any, start: int, end: int) -> list[float | str | None]:
    """Return the numbers from a place to another, as :func:`number_at` does."""
    if isinstance(column, list):
        return column[start:end]
    if not isinstance(column, dict):
        return [column] * (end - start)
    ((kind, text),) = column.items()
    size = struct.calcsize(_SIZES[kind])
    # Four characters are three bytes: only those around the numbers are decoded.
    first, last = start * size // 3, -(-end * size // 3)
    part = base64.b64decode(text[4 * first : 4 * last])
    numbers = struct.unpack_from(f"<{end - start}{_SIZES[kind]}", part, start * size - 3 * first)
    return [number if math.isfinite(number) else None if math.isnan(number) else str(number) for number in numbers]
