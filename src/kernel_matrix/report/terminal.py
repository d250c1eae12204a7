"""Verdicts -> lines for a terminal: the counts, and for what is red the cause and the command that repeats it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernel_matrix.base.commands import line_here
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import Rule, diagnose, in_words
from kernel_matrix.report.words import counted
from kernel_matrix.results import noise as noises
from kernel_matrix.results.repeat import Commands
from kernel_matrix.results.states import Verdict

if TYPE_CHECKING:  # DuckDB takes long to import
    from kernel_matrix.results.judged import Judged

_MOST_OUTPUTS = 3  # of a case whose noise ratios are printed
_MOST_REASONS = 5  # why cases are unavailable
_MOST_CASES = 3  # of one cell; a broken kernel fails in all of its cases


def summary(matrix: Matrix, judged: Judged, rules: tuple[Rule, ...]) -> Iterator[str]:
    """Yield the counts of all cases, and the first red cases of every cell; ``rules`` are those of the project."""
    counts = judged.counts
    yield f"{counted(sum(counts.values()), 'case')}: {', '.join(f'{count} {state}' for state, count in counts.items())}"
    if not judged.has_run:
        yield "Nothing ran on hardware of the platforms that were asked for."
    yield from _lacking(judged)
    yield from _noise(judged, matrix.package.baseline)
    commands = Commands(matrix)
    for number, first in judged.red_by_cell(_MOST_CASES):
        for verdict in first:
            yield from _red_case(commands, verdict, rules)
        if number > len(first):
            yield f"  and {number - len(first)} more of {first[0].case.cell.id}"


def _lacking(judged: Judged) -> Iterator[str]:
    """Yield a line for each thing that jobs looked for and did not find, with what brings it, where that was said."""
    reasons: Counter[str] = Counter()
    for reason, cases in judged.reasons("unavailable").items():
        reasons[reason.partition("\n")[0]] += cases
    for reason, cases in reasons.most_common(_MOST_REASONS):
        if reason:
            yield f"unavailable, {counted(cases, 'case')}: {reason[:300]}"


def _noise(judged: Judged, baseline: str) -> Iterator[str]:
    """Yield one line for each dtype: the least exact output of all cells."""
    worst: dict[str, tuple[float, str, str]] = {}
    for cell, by_dtype in judged.noise().items():
        for dtype, outputs in by_dtype.items():
            for output, noise in outputs.items():
                if noise.ratio is not None:
                    worst[dtype] = max(worst.get(dtype, (-1.0, "", "")), (noise.ratio, output, cell))
    for dtype, (ratio, output, place) in sorted(worst.items()):
        yield f"noise ratio (the error over that of {baseline}), {dtype}: at most {ratio:.3g} ({output} in {place})"


def _red_case(commands: Commands, verdict: Verdict, rules: tuple[Rule, ...]) -> Iterator[str]:
    case, record = verdict.case, verdict.record
    stage = f" in {record.stage}" if record and record.stage else ""
    reason = verdict.reason.partition("\n")[0][:300] or "no reason was given"
    yield f"{verdict.state}{stage}: {case.id}\n  {reason}"
    if record and verdict.state == "fail" and (ratios := noises.in_words(record, _MOST_OUTPUTS)):
        yield f"  noise ratio: {ratios}"
    if record and verdict.state == "error":
        yield f"  {in_words(diagnose(record.text, record.stage, record.job, rules))}"
    yield f"  repeat it: {line_here(commands.command(case.id, record))}"
