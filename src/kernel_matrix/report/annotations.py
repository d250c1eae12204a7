"""Verdicts -> annotations: GitHub shows them on the lines of the tests that failed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from kernel_matrix.report.document import repeat_command
from kernel_matrix.results.compare import RED, Comparison, Verdict

_MOST = 10  # GitHub shows no more errors of one step
_MOST_CHARACTERS = 2_000


def annotate(comparison: Comparison, suite: str) -> list[str]:
    """One workflow command per failing line and toolchain's stage, the most frequent first."""
    groups: dict[tuple[str, int, str], list[Verdict]] = defaultdict(list)
    for verdict in _red(comparison):
        file, line = place(verdict.record.detail if verdict.record else "", suite)
        groups[file, line, verdict.reason.splitlines()[0] if verdict.reason else ""].append(verdict)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0] == "", -len(item[1])))
    shown = ordered if len(ordered) <= _MOST else ordered[: _MOST - 1]
    lines = [_command(file, line, reason, verdicts) for (file, line, reason), verdicts in shown]
    if rest := ordered[len(shown) :]:
        count = sum(len(verdicts) for _, verdicts in rest)
        text = f"{count} more cases are red, for {len(rest)} more reasons: see the summary."
        lines.append(f"::error title=kernel-matrix::{escape(text)}")
    return lines


def place(detail: str, suite: str) -> tuple[str, int]:
    """The innermost line of the suite in a traceback; none if it never got there."""
    found = re.findall(rf'File "(?:\./|[^"]*?/)?({re.escape(suite)}/[\w./-]+\.py)", line (\d{{1,6}})', detail)
    return (found[-1][0], int(found[-1][1])) if found and ".." not in found[-1][0] else ("", 0)


def _red(comparison: Comparison) -> Iterator[Verdict]:
    for cell in comparison.cells:
        yield from (verdict for verdict in cell.cases if verdict.state in RED)


def _command(file: str, line: int, reason: str, verdicts: list[Verdict]) -> str:
    first = verdicts[0]
    cases = f"{len(verdicts)} cases, the first: {first.case.id}" if len(verdicts) > 1 else first.case.id
    text = f"{reason[:_MOST_CHARACTERS]}\n{cases}\nRepeat it: {repeat_command(first.case.cell.platform, first.case.id)}"
    properties = {"file": file, "line": str(line)} if file else {}
    properties["title"] = f"{first.case.cell.toolchain} on {first.case.cell.target}: {first.state}"
    said = ",".join(f"{key}={escape(value, inside=True)}" for key, value in properties.items())
    return f"::error {said}::{escape(text)}"


def escape(text: str, *, inside: bool = False) -> str:
    """As GitHub wants it, so that no text starts a command of its own; ``inside``: in a property."""
    text = "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
    text = text.replace("%", "%25").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if inside else text
