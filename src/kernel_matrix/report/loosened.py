"""Turn what became looser in matrix.yaml into a table in Markdown, for a terminal and for a pull request's summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernel_matrix.config.loosened import Loosening
from kernel_matrix.report.markdown import cell


def table(rows: Sequence[Loosening], since: str) -> str:
    """Return a heading with the table of all that became looser since a commit, or a sentence that nothing did."""
    name = cell(since)
    if not rows:
        return f"Nothing in matrix.yaml became looser since {name}.\n"
    return "\n".join(_lines(rows, name)) + "\n"


def _lines(rows: Sequence[Loosening], since: str) -> Iterator[str]:
    yield f"### Looser in matrix.yaml since {since}\n"
    yield "| where | what | before | now | cases |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        yield f"| {cell(row.place)} | {cell(row.change)} | {cell(row.before)} | {cell(row.after)} | {_cases(row)} |"


def _cases(row: Loosening) -> str:
    """Return how many cases a row concerns, and one of them; a limit concerns all."""
    if not row.cases:
        return "all"
    return f"{len(row.cases)}, such as {cell(row.cases[0])}"
