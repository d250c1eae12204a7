"""The columns of a file of cells -> its cases as plain dictionaries, each with its texts and figures."""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

from kernel_matrix.report.audit.figures import Shown

_SIZES = {"uint8": "B", "float32": "f", "float64": "d"}
_TEXTS = ("reason", "stale", "stage", "action", "message", "detail", "repeat")


def of_cell(cell: str, chunk: Shown, overview: Shown) -> list[dict[str, Any]]:
    """Return the cases of a cell of the file."""
    detail = chunk["cells"][cell]
    first = detail["first"]
    return [_case(place, cell, chunk, overview) for place in range(first, first + detail["cell"]["planned"])]


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
        "outputs": _outputs(place, columns["outputs"]),
        "diagnosis": chunk["diagnoses"][diagnosis] if diagnosis >= 0 else None,
        "job": chunk["jobs"][job] if job >= 0 else {},
        "repeat": found["repeat"].replace("{case}", f"{cell}/{name}"),
    }


def _outputs(place: int, columns: Shown) -> dict[str, dict[str, Any]]:
    counts = columns["counts"]
    first = counts[0] * place if len(counts) == 1 else sum(counts[:place])
    outputs = {}
    for row in range(first, first + _at(counts, place)):
        values = {figure: number_at(column, row) for figure, column in columns["figures"].items()}
        name = columns["names"][_at(columns["name"], row)]
        outputs[name] = {figure: value for figure, value in values.items() if value is not None}
    return outputs


def _at(column: list[int], place: int) -> int:
    """Return the value of a place; of a list of one it is that."""
    return column[0] if len(column) == 1 else column[place]


def number_at(column: Any, place: int) -> float | str | None:
    """Return the number of a place; none if it was not measured.

    Raises:
        KeyError: the column is of no kind that there is.
    """
    if isinstance(column, list):
        value: float | str | None = column[place]
        return value
    if not isinstance(column, dict):
        return column  # type: ignore[no-any-return]
    ((kind, text),) = column.items()
    size = struct.calcsize(_SIZES[kind])
    # Four characters are three bytes: only those around the number are decoded.
    start, end = place * size // 3, -(-(place + 1) * size // 3)
    part = base64.b64decode(text[4 * start : 4 * end])
    (number,) = struct.unpack_from(f"<{_SIZES[kind]}", part, place * size - 3 * start)
    if math.isnan(number):
        return None
    return number if math.isfinite(number) else str(number)
