"""Verdicts, and entries that have ended -> annotations, which GitHub shows on the lines of tests and of matrix.yaml."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix.config.document import Document
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.rule_state import RuleState
from kernel_matrix.diagnosis.whole import cut, whole_reason
from kernel_matrix.report.sentences import NOTHING
from kernel_matrix.results.repeat import Commands
from kernel_matrix.results.states import Verdict

if TYPE_CHECKING:  # DuckDB takes long to import
    from kernel_matrix.results.judged import Judged

_MOST_RED = 20_000  # cases that annotations are made of
_MOST = 10  # GitHub shows no more errors of one step
_MOST_CHARACTERS = 2_000


def of_report(file: Path | None, matrix: Matrix, judged: Judged) -> list[str]:
    """Return the annotations of a run without results, of entries of ``file`` that have ended, and of what is red."""
    nothing = [_nothing(judged)] if judged.is_empty else []
    return [*nothing, *ended_annotations(file, judged.ended), *annotate(matrix, judged.red(_MOST_RED))]


def _nothing(judged: Judged) -> str:
    """Return the warning that no case has a result, with the most frequent reason."""
    reasons = [text.splitlines()[0] for text, _ in judged.reasons("unavailable").most_common(1) if text]
    return f"::warning title=kernel-matrix::{escape(' '.join([NOTHING, *reasons])[:_MOST_CHARACTERS])}"


def annotate(matrix: Matrix, red: Iterable[Verdict]) -> list[str]:
    """Return one workflow command for each failing line and reason, the most frequent first."""
    suite, commands = matrix.package.suite, Commands(matrix)
    groups: dict[tuple[str, int, str], list[Verdict]] = defaultdict(list)
    for verdict in red:
        detail = verdict.record.detail if verdict.record else ""
        file, line = place(detail, suite)
        groups[file, line, whole_reason(verdict.reason, detail)].append(verdict)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0] == "", -len(item[1])))
    shown = ordered if len(ordered) <= _MOST else ordered[: _MOST - 1]
    lines = [_command(commands, file, line, reason, verdicts) for (file, line, reason), verdicts in shown]
    if rest := ordered[len(shown) :]:
        count = sum(len(verdicts) for _, verdicts in rest)
        text = f"{count} more cases are red, for {len(rest)} more reasons: see the summary."
        lines.append(f"::error title=kernel-matrix::{escape(text)}")
    return lines


# A compiler's error, and a frame of pytest's short traceback: both name files of the repository without './' too.
_SOURCE = r"(?:\./)?((?!build/|harness/)\w[\w./-]*\.(?:cu|cuh|c|cc|cpp|cxx|h|hpp|hip|cl))"
_COMPILED = rf"(?:^|\s){_SOURCE}[:(](\d{{1,6}})[:)](?:\d*:)? ?(?:fatal )?error"
_SHOWN = r"^(?:\./)?((?!build/|harness/)\w[\w./-]*\.py):(\d{1,6}): in "


def place(detail: str, suite: str) -> tuple[str, int]:
    """Return the line of a kernel or a test that failed: file and number, empty and 0 if it is not known.

    It is the first line that a compiler complains of, else the innermost line of the repository in a traceback.
    """
    traced = rf'File "(?:\./(?!\.)|(?:[^"]*?/)?(?={re.escape(suite)}/))([\w./-]+\.py)", line (\d{{1,6}})'
    compiled, shown = (re.findall(pattern, detail, re.MULTILINE) for pattern in (_COMPILED, _SHOWN))
    for file, line in (*compiled[:1], *reversed(shown or re.findall(traced, detail))):
        if ".." not in file and "site-packages" not in file:
            return file, int(line)
    return "", 0


def _command(commands: Commands, file: str, line: int, reason: str, verdicts: list[Verdict]) -> str:
    first = verdicts[0]
    cases = f"{len(verdicts)} cases, the first: {first.case.id}" if len(verdicts) > 1 else first.case.id
    text = f"{cut(reason, _MOST_CHARACTERS)}\n{cases}\nRepeat it: {commands.command(first.case.id, first.record)}"
    properties = {"file": file, "line": str(line)} if file else {}
    properties["title"] = f"{first.case.cell.toolchain} on {first.case.cell.target}: {first.state}"
    values = ",".join(f"{key}={escape(value, inside=True)}" for key, value in properties.items())
    return f"::error {values}::{escape(text)}"


def escape(text: str, *, inside: bool = False) -> str:
    """Return a text that cannot start another workflow command; ``inside`` is for the value of a property."""
    text = "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
    text = text.replace("%", "%25").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if inside else text


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
