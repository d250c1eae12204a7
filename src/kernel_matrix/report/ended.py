"""Expectations and exclusions -> lines for a terminal: their state, and the exact edit of those that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kernel_matrix.config.document import Document
from kernel_matrix.config.edits import diff
from kernel_matrix.config.rule_state import RuleState
from kernel_matrix.report.annotations import escape
from kernel_matrix.report.words import counted


def ended_lines(file: Path | None, ended: Sequence[RuleState]) -> list[str]:
    """Return what is wrong with the entries that have ended, and the edit of ``file`` that takes them out."""
    if not ended or file is None:
        return []
    document = Document(file)
    lines = [f"{place(document, state)}: {state.sentence}" for state in ended]
    if edits := [state.edit for state in ended if state.edit]:
        lines.append("The edit, which `kernel-matrix check --expectations --write` makes:")
        lines += diff(file.read_text(encoding="utf-8"), edits, file.name).splitlines()
    return lines


def ended_annotations(file: Path | None, ended: Sequence[RuleState]) -> list[str]:
    """Return GitHub's annotations of the entries that have ended, on their lines of ``file``."""
    if not ended or file is None:
        return []
    document = Document(file)
    return [
        f"::error file={escape(file.name, inside=True)},line={document.line((state.section, state.index))},"
        f"title={state.section[:-1]} {state.state}::{escape(state.sentence)}"
        for state in ended
    ]


def state_lines(file: Path, states: Iterable[RuleState]) -> Iterator[str]:
    """Yield one line for each entry: its state, its end, its owner and how many cases it covers."""
    document = Document(file)
    for state in states:
        rule = state.rule
        yield (
            f"{state.state:15} {place(document, state)} {state.name}: until {rule.until}, "
            f"{counted(len(state.cases), 'case')}, {rule.owner}, {rule.link}"
        )
        if state.reason:
            yield f"{'':15} {state.reason}"


def place(document: Document, state: RuleState) -> str:
    """Return the file and the line of an entry."""
    return f"{document.path.name}:{document.line((state.section, state.index))}"
