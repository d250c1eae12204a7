"""Document -> compat.csv: one line a cell, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from kernel_matrix.report.document import Cell, Document, Number
from kernel_matrix.results.noise import as_float

FILE = "compat.csv"
COLUMNS = (
    *("platform", "target", "toolchain", "op", "direction", "state", "evidence", "emulated"),
    *("stale_cases", "cases", "by_state"),
    *("stage", "rule", "reason", "noise_ratio", "share_of_budget", "speed", "seconds", "versions", "repeat"),
)

# A spreadsheet takes a text that begins with one of these for a formula, also in their wide forms.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_MOST = 1_000  # characters of a text: a spreadsheet holds 32,767 in one field


def table(document: Document) -> str:
    """Return the cells as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    versions: dict[int, str] = {}  # by identity: the cells of a job have one object
    for cell in document.cells:
        if id(cell.versions) not in versions:
            versions[id(cell.versions)] = safe(_in_words(cell.versions))
        writer.writerow(_row(cell, versions[id(cell.versions)]))
    return text.getvalue()


@lru_cache(10_000)  # most texts belong to many cells
def safe(text: str) -> str:
    """Return a text as one line that no spreadsheet takes for a formula: it gets an apostrophe before it."""
    text = text[:_MOST]
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(text.split())
    return f"'{line}" if line.startswith(_FORMULA) else line


def _in_words(versions: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{name} {' and '.join(values)}" for name, values in versions.items())


def _row(cell: Cell, versions: str) -> list[Number]:
    by_state = ", ".join(f"{count} {state}" for state, count in cell.cases.items())
    place = (cell.platform, cell.target, cell.toolchain, cell.op, cell.direction)
    return [
        *map(safe, place),
        cell.state,
        cell.evidence,
        cell.emulated,
        cell.stale_cases,
        cell.planned,
        by_state,
        *map(safe, (cell.stage, cell.diagnosis.rule if cell.diagnosis else "", cell.reason)),
        max(_ratios(cell), key=as_float, default=""),
        cell.accuracy.share if cell.accuracy else "",
        max((timed.ratio for timed in cell.timed), default=""),
        round(cell.seconds, 3),
        versions,
        safe(cell.repeat),
    ]


def _ratios(cell: Cell) -> Iterator[Number]:
    for outputs in cell.noise.values():
        yield from (noise.ratio for noise in outputs.values() if noise.ratio is not None)
