"""The page's files and compat.json -> plain dictionaries, compared with the overview.

It shares no code with the writer.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from kernel_matrix.audit.figures import Difference, Shown, unequal

OVERVIEW = "data/overview.js"
CUT = 300  # characters of a text in the overview, before the words that say what was cut


def read_data(path: Path) -> Any:
    """Return the value of a file of data.

    Raises:
        ValueError: it is no such file.
    """
    text = path.read_text(encoding="utf-8")
    start, end = text.find(","), text.rfind(")")
    if not text.startswith("kernelMatrix.put(") or start < 0 or end < start:
        raise ValueError("it hands the page no value")
    return json.loads(text[start + 1 : end])


def read_cells(
    site: Path, overview: Shown, wanted: Collection[int] | None = None
) -> tuple[list[dict[str, Any]], list[Difference]]:
    """Return the cells of the page in the order of its grid, with their cases under ``results``.

    Every place in a list of texts is replaced by its text. A cell that no file of data has is a difference. ``wanted``
    are the places of the cells that are asked for, by default all: only their files are read.
    """
    rows = [*enumerate(zip(_ids(overview), overview["cells"]["chunk"], strict=True))]
    rows = [row for row in rows if wanted is None or row[0] in wanted]
    folder = site / "data" / "cells"
    paths = sorted(folder.glob("*.js")) if wanted is None else {folder / f"{number}.js" for _, (_, number) in rows}
    chunks = {path.stem: with_rows(read_data(path)) for path in paths if path.exists()}
    cells, differences = [], []
    for _, (name, number) in rows:
        chunk = chunks.get(str(number), {"cells": {}})
        if name in chunk["cells"]:
            cells.append({**chunk["cells"][name]["cell"], "results": of_cell(name, chunk, overview)})
        else:
            differences.append((f"{name}: its details", "none", f"a cell of data/cells/{number}.js"))
    if wanted is None:
        differences += unequal(
            "the cells in data/cells",
            sum(len(chunk["cells"]) for chunk in chunks.values()),
            len(overview["cells"]["lane"]),
        )
    return cells, differences


def places_of(overview: Shown, lanes: Collection[tuple[str, str]]) -> list[int]:
    """Return the places of the cells of these platforms' toolchains."""
    at = {index for index, lane in enumerate(overview["lanes"]) if (lane["platform"], lane["toolchain"]) in lanes}
    return [index for index, lane in enumerate(overview["cells"]["lane"]) if lane in at]


def of_overview(overview: Shown, cells: Iterable[Shown], shown: Shown) -> Iterator[Difference]:
    """Yield where the overview differs from the cells with their cases, or from compat.json."""
    for key in ("run", "run_notes", "silent_days", "platforms", "silent", "stale"):
        yield from unequal(key, overview[key], shown[key])
    by_place = {(lane["platform"], lane["target"], lane["toolchain"]): lane for lane in shown["lanes"]}
    for lane in overview["lanes"]:
        place = lane["platform"], lane["target"], lane["toolchain"]
        yield from unequal(f"the lane {'/'.join(place)}", lane, by_place.pop(place, None))
    yield from unequal("lanes that are absent", sorted("/".join(place) for place in by_place), [])
    yield from _of_texts(overview, shown)
    yield from unequal("in_journal", overview["cells"]["in_journal"], [])
    yield from of_rows(overview, enumerate(cells), shown)


def of_rows(overview: Shown, cells: Iterable[tuple[int, Shown]], shown: Shown) -> Iterator[Difference]:
    """Yield where the rows of some cells, each with its place, differ from the cells with their cases."""
    odd = {
        f"{member['platform']}/{member['target']}/{member['toolchain']}/{table['op']}.{table['direction']}"
        for table in shown["agreement"]["tables"]
        for member in table["members"]
        if member["odd"]
    }
    for row, cell in cells:
        try:
            differences = list(_of_row(overview, row, cell, odd))
        except (IndexError, KeyError) as error:
            differences = [("its row", f"an index to nowhere ({error})", "one of its lists")]
        yield from ((f"{cell['id']}: {key}", one, other) for key, one, other in differences)


def _of_texts(overview: Shown, shown: Shown) -> Iterator[Difference]:
    for key in ("notes", "problems"):
        yield from unequal(key, [text[:CUT] for text in overview[key]], [text[:CUT] for text in shown[key]])
    counted = {(e["stage"], e["message"][:CUT], e["cases"]) for e in shown["undiagnosed"]}
    listed = {(e["stage"], e["message"][:CUT], e["cases"]) for e in overview["undiagnosed"]}
    yield from unequal("undiagnosed errors that do not exist", sorted(listed - counted), [])
    yield from unequal("undiagnosed", len(overview["undiagnosed"]), min(len(shown["undiagnosed"]), 200))
    start = f"Of {shown['run']['cells']} cell{'s' if shown['run']['cells'] != 1 else ''} "
    yield from unequal("headline", overview["headline"][: len(start)], start)
    words = {
        "ran": "ran",
        "emulated": "ran in an emulator",
        "held": "ran under the suite's own assertions",
        "told": "told by a person outside the project",
        "compiled": "compiled",
        "lowered": "became source",
    }
    for level, phrase in words.items():
        count = shown["run"]["cells_by_evidence"].get(level)
        says = f"{count} {phrase}" in overview["headline"] if count else True
        yield from unequal(f"headline: {phrase}", says, True)
    emulated, counted = shown["run"]["emulated"], shown["run"]["cells_by_evidence"].get("emulated", 0)
    said = re.search(rf" {emulated - counted}{' more' if counted else ''} (was|were) emulated\.", overview["headline"])
    yield from unequal("headline: were emulated", said is not None, emulated > counted)


def _of_row(overview: Shown, place: int, cell: Shown, odd: set[str]) -> Iterator[Difference]:
    """Yield where a row of the columns differs from its cell."""
    columns, texts, results = overview["cells"], overview["texts"], cell["results"]
    names = overview["ops"][columns["op"][place]]["cases"]
    by_letter = {state["letter"]: state["name"] for state in overview["states"]}
    states = {names[at]: by_letter[letter] for at, letter in enumerate(columns["case_states"][place]) if letter != "."}
    yield from unequal("case_states", states, {result["name"]: result["state"] for result in results})
    yield from unequal("state", overview["states"][columns["state"][place]]["name"], cell["state"])
    yield from unequal("evidence", overview["evidence"][columns["evidence"][place]], cell["evidence"])
    yield from unequal("emulated", columns["emulated"][place], cell["emulated"])
    yield from unequal("stale", columns["stale"][place], sum(bool(result["stale"]) for result in results))
    yield from unequal("reason", texts[columns["reason"][place]][:CUT], cell["reason"][:CUT])
    yield from unequal("stage", texts[columns["stage"][place]], cell["stage"])
    rule = cell["diagnosis"]["rule"] if cell["diagnosis"] else ""
    yield from unequal("rule", texts[columns["rule"][place]], rule)
    yield from unequal("share", columns["share"][place], cell["accuracy"] and cell["accuracy"]["share"])
    ratios = [timed["ratio"] for timed in cell["timed"]]
    yield from unequal("speed", columns["speed"][place], max(ratios) if ratios else None)
    seconds = sum(float(result["seconds"]) for result in results if result["state"] != "told")
    if not abs(float(columns["seconds"][place]) - seconds) <= 0.001 + 1e-6 * seconds and math.isfinite(seconds):
        yield "seconds", columns["seconds"][place], seconds
    yield from unequal("odd", columns["odd"][place], cell["id"] in odd)
    determinism = cell["determinism"]
    yield from unequal("differing", columns["differing"][place], determinism and determinism["differing"])
    yield from _of_noise(overview, place, cell["noise"])
    yield from unequal("backend", overview["backends"][columns["lane"][place]], cell["backend"])


def _of_noise(overview: Shown, place: int, noise: Shown) -> Iterator[Difference]:
    columns, texts = overview["cells"], overview["texts"]
    largest: list[Any] = []
    for dtype in columns["noise_by_dtype"].keys() | noise.keys():
        ratios = {output: one["ratio"] for output, one in noise.get(dtype, {}).items()}
        known = [ratio for ratio in ratios.values() if ratio is not None]
        worst = max(known, key=_size, default=None)
        largest += [] if worst is None else [worst]
        shown = columns["noise_by_dtype"].get(dtype, {place: "no column"})[place]
        yield from unequal(f"noise_by_dtype.{dtype}", shown, worst)
        output = texts[columns["noise_output"].get(dtype, {place: 0})[place]]
        if bool(output) != bool(ratios) or (output and ratios.get(output) != worst):
            yield f"noise_output.{dtype}", output, ratios
        level = columns["noise_evidence"].get(dtype, {place: -1})[place]
        shown = overview["evidence"][level] if level >= 0 else None
        yield from unequal(f"noise_evidence.{dtype}", shown, noise[dtype][output]["evidence"] if output else None)
    yield from unequal("noise", columns["noise"][place], max(largest, key=_size, default=None))


def _size(ratio: float | str) -> float:
    value = float(ratio)
    return math.inf if math.isnan(value) else value


def _ids(overview: Shown) -> Iterator[str]:
    columns = overview["cells"]
    for lane, op in zip(columns["lane"], columns["op"], strict=True):
        place, operator = overview["lanes"][lane], overview["ops"][op]
        cell = f"{operator['op']}.{operator['direction']}"
        yield "/".join((place["platform"], place["target"], place["toolchain"], cell))


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
        "diagnosis": _value_of(diagnosis) if diagnosis else None,
        "job": _value_of(job) if job else {},
        "repeat": row["repeat"].replace("{case}", f"{cell}/{row['name']}"),
    }


@functools.lru_cache(maxsize=64)
def _value_of(text: str) -> Any:
    """Return the value of a text in JSON. All cases of a job share one, which may name 20,000 tests."""
    return json.loads(text)


def _rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of a table, which is an Arrow stream as Base64. Equal texts of a column are one object."""
    from pyarrow.ipc import open_stream  # it takes long to import

    table = open_stream(base64.b64decode(text)).read_all()
    columns = [_values_of(column.combine_chunks()) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values_of(column: Any) -> list[Any]:
    """Return the values of a column; PyArrow's own would copy a text for each row that has it."""
    if not hasattr(column, "dictionary"):
        values: list[Any] = column.to_pylist()
        return values
    texts = column.dictionary.to_pylist()
    return [None if place is None else texts[place] for place in column.indices.to_pylist()]


def _word(number: float) -> float | str:
    """Return a number; a word where it is not finite."""
    return number if math.isfinite(number) else str(number)


# What stands before and behind the cells, and behind each, in a file that is indented by one space: no text in JSON
# holds a new line, and all that a cell holds is indented by more.
_FIRST, _LAST = b'\n "cells": [\n', b"\n ]"
_END_OF_CELL = b"\n  }"
_BLOCK = 2**20  # bytes that are read at once


class Compat:
    """A compat.json whose cells are made objects of one by one: 20,000 of them at once take 400 MB."""

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            ValueError: it is no compat.json in the form that the report writes.
        """
        self._path = path
        with path.open("rb") as file:
            self._first = _behind(file, _FIRST, 0)
            self._last = _behind(file, _LAST, self._first) - len(_LAST)
            file.seek(0)
            before = file.read(self._first)
            file.seek(self._last)
            self.rest: dict[str, Any] = json.loads(before + file.read())

    def cells(self) -> Iterator[dict[str, Any]]:
        """Yield the cells in their order."""
        with self._path.open("rb") as file:
            file.seek(self._first)
            left, rest = self._last - self._first, b""
            while left > 0:
                block = file.read(min(_BLOCK, left))
                left -= len(block)
                *whole, rest = (rest + block).split(_END_OF_CELL)
                for text in whole:
                    yield json.loads(text.lstrip(b",\n").decode() + "}")


def _behind(file: BinaryIO, wanted: bytes, start: int) -> int:
    """Return the place behind the first of some bytes from a place on.

    Raises:
        ValueError: they are not there.
    """
    file.seek(start)
    rest, place = b"", start
    while block := file.read(_BLOCK):
        found = (rest + block).find(wanted)
        if found >= 0:
            return place - len(rest) + found + len(wanted)
        place += len(block)
        rest = (rest + block)[-len(wanted) :]
    raise ValueError("its cells are not indented by one space")
