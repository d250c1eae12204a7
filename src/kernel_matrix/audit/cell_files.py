"""The tables of a file of cells -> its cases as plain dictionaries, each with its texts and figures."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from kernel_matrix.audit.figures import Shown

_TEXTS = ("name", "reason", "stale", "stage", "action", "message", "detail")


def with_rows(chunk: Shown) -> dict[str, Any]:
    """Return a file of cells with the rows of its tables in place of their bytes; the outputs are by case.

    Raises:
        ValueError: they are no tables.
    """
    outputs: dict[int, dict[str, dict[str, Any]]] = {}
    for row in _rows(chunk["outputs"]):
        figures = outputs.setdefault(row.pop("case"), {}).setdefault(row.pop("output"), {})
        figures |= {figure: _word(value) for figure, value in row.items() if value is not None}
    return {**chunk, "cases": _rows(chunk["cases"]), "outputs": outputs}


def of_cell(cell: str, chunk: Shown, overview: Shown) -> list[dict[str, Any]]:
    """Return the cases of a cell of a file with rows."""
    detail = chunk["cells"][cell]
    return [
        _case(cell, chunk["cases"][place], overview) | {"outputs": chunk["outputs"].get(place, {})}
        for place in range(detail["first"], detail["first"] + detail["cell"]["planned"])
    ]


def _case(cell: str, row: Shown, overview: Shown) -> dict[str, Any]:
    diagnosis, job = row.get("diagnosis"), row.get("job")
    return {
        **{key: row[key] for key in _TEXTS},
        "state": overview["states"][row["state"]]["name"],
        "evidence": overview["evidence"][row["evidence"]],
        "seconds": _word(row["seconds"]),
        "facts": dict(row.get("facts") or ()),
        "artifact": {name: _word(value) for name, value in row.get("artifact") or ()},
        "times": row.get("times"),
        "attempts": row.get("attempts") or [],
        "diagnosis": json.loads(diagnosis) if diagnosis else None,
        "job": json.loads(job) if job else {},
        "repeat": row["repeat"].replace("{case}", f"{cell}/{row['name']}"),
    }


def _rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of a table, which is an Arrow stream as Base64."""
    from pyarrow.ipc import open_stream  # it takes long to import

    rows: list[dict[str, Any]] = open_stream(base64.b64decode(text)).read_all().to_pylist()
    return rows


def _word(number: float) -> float | str:
    """Return a number; a word where it is not finite."""
    return number if math.isfinite(number) else str(number)
