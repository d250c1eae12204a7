"""Verdicts, two cells side by side, and entries that have ended -> lines for a terminal."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix.base.commands import command, line_here
from kernel_matrix.base.words import counted
from kernel_matrix.config import suite
from kernel_matrix.config.document import Document
from kernel_matrix.config.edits import diff
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.rule_state import RuleState
from kernel_matrix.diagnosis import Rules, diagnose, in_words
from kernel_matrix.diagnosis.whole import MOST, cut, whole_reason
from kernel_matrix.job.suite_canaries.summing import in_words as in_words_of_line
from kernel_matrix.job.suite_canaries.summing import kinds, without_time
from kernel_matrix.report.sentences import NOTHING
from kernel_matrix.results import noise as noises
from kernel_matrix.results.agreement_tables import exact
from kernel_matrix.results.comparisons import lines_of
from kernel_matrix.results.repeat import Commands
from kernel_matrix.results.states import Verdict
from kernel_matrix.store.record import Record

if TYPE_CHECKING:  # DuckDB and NumPy take long to import
    from kernel_matrix.results.judged import Judged
    from kernel_matrix.results.side_by_side import CasePair, OutputPair
    from kernel_matrix.results.ulp import Distance


_MOST_OUTPUTS = 3  # of a case whose noise ratios are printed
_MOST_REASONS = 5  # why cases are unavailable
_MOST_LINES = 3  # of a suite, that compare
_OF_CELL = (
    "SELECT name, outcome, message FROM cases WHERE starts_with(cases.case, '{}/') "
    "AND outcome IN ('fail', 'error', 'missing')"
)
_OF_CASE = "SELECT message, detail FROM cases WHERE cases.case = '{}'"
_MOST_CASES = 3  # of one cell; a broken kernel fails in all of its cases


def summary(matrix: Matrix, judged: Judged, rules: Rules, options: Sequence[str] = ()) -> Iterator[str]:
    """Yield the counts of all cases, and the first red cases of every cell.

    ``rules`` reads the project's rules where an error asks for them; ``options`` are what a command needs to find its
    matrix.yaml.
    """
    counts = judged.counts
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    emulated = f" ({judged.emulated} emulated)" if judged.emulated else ""
    yield f"{counted(sum(counts.values()), 'case')}: {states}{emulated}"
    yield from suite.sample_words(matrix, judged.tier)
    if not judged.has_run:
        why = (
            ", for the reasons below"
            if judged.is_red and not judged.emulated
            else " of the platforms that were asked for"
        )
        yield f"Nothing ran on hardware{why}."
    yield from _lacking(judged)
    if judged.is_empty:
        yield NOTHING
    yield from _noise(judged, matrix.package.baseline)
    yield from _checks(judged)
    yield from _compared(judged)
    commands, said = Commands(matrix), dict[tuple[str, str], str]()
    for number, unsaid, first in judged.red_by_cell(_MOST_CASES):
        for verdict in first:
            same = said.setdefault((_state_of(verdict), _reason(verdict)), verdict.case.id)
            if verdict.state in ("error", "missing") and verdict.reason and same != verdict.case.id:
                yield f"{_state_of(verdict)}: {verdict.case.id}: as {same}"
            else:
                yield from _red_case(commands, verdict, rules, options)
        if number > len(first):
            cell = first[0].case.cell.id
            ways = [_asked(_OF_CELL, cell, options)] if unsaid < number else []
            ways += ["the page has those that are red in no table"] if unsaid else []
            yield f"  and {number - len(first)} more of {cell}: {'; '.join(ways)}"


def _lacking(judged: Judged) -> Iterator[str]:
    """Yield a line for each thing that jobs looked for and did not find, with what brings it, where that was said."""
    reasons: Counter[str] = Counter()
    for reason, cases in judged.reasons("unavailable").items():
        reasons[_first_words(reason)] += cases
    for reason, cases in reasons.most_common(_MOST_REASONS):
        if reason:
            yield f"unavailable, {counted(cases, 'case')}: {cut(reason)}"


def _noise(judged: Judged, baseline: str) -> Iterator[str]:
    """Yield one line for each dtype: the least exact output of all cells."""
    worst: dict[str, tuple[float, str, str]] = {}
    for cell, by_dtype in judged.noise().items():
        for dtype, outputs in by_dtype.items():
            for output, noise in outputs.items():
                if noise.ratio is not None:
                    worst[dtype] = max(worst.get(dtype, (-1.0, "", "")), (noise.ratio, output, cell))
    for dtype, (ratio, output, place) in sorted(worst.items()):
        of = f"{output} over the cases of {place}"
        yield f"noise ratio (the error over that of {baseline}), {dtype}: of a cell at most {ratio:.3g} ({of})"


def _checks(judged: Judged) -> Iterator[str]:
    """Yield how many checks the cases of described operators had that passed, and which were not asked."""
    for text, cases in judged.checks()[:_MOST_REASONS]:
        yield f"{cut(text)}: {counted(cases, 'case')}"


def _compared(judged: Judged) -> Iterator[str]:
    """Yield which known faults the suite's own comparisons see, and the lines that let most of them through."""
    facts = judged.comparisons()
    lines = lines_of(facts)
    if lines:
        seen, faults = kinds(lines)
        where = f"wherever they were put in ({counted(len(lines), 'line')})"
        yield f"The suite's own comparisons see {seen} of {faults} known faults {where}."
    unseen = [line for line in lines if line.unseen or math.isinf(line.allows)]
    yield from (f"  {in_words_of_line(line)}" for line in unseen[:_MOST_LINES])
    if len(unseen) > _MOST_LINES:
        yield f"  and {counted(len(unseen) - _MOST_LINES, 'more line')} let something through"
    yield from (f"{words}." for words in without_time(facts))
    if judged.unseen:
        cases = counted(judged.counts["held"], "case")
        yield (
            f"No comparison of arrays was seen in {judged.unseen} of {cases} that held: either it compares none, or "
            "what is not watched (whole numbers of Python, `abs(a - b) < tol`, `gradcheck`, a program that it starts)."
        )


def _first_words(reason: str) -> str:
    """Return the first line of a reason; with the next one, where it ends with a colon."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return " ".join(lines[: 1 + (len(lines) > 1 and lines[0].endswith(":"))])


def _asked(query: str, identity: str, options: Sequence[str]) -> str:
    """Return the command that shows what is left out here."""
    text = query.format(identity.replace("'", "''"))
    quoted = shlex.quote(text) if {*'"$`!\\'} & {*text} else f'"{text}"'  # in double quotes it is easier to read
    given = dict(pairwise(options))  # what a query asks are the results in a folder
    build = given.get("--build") or ("--matrix" in given and str(Path(given["--matrix"]).parent / "build"))
    folder = f" {shlex.quote(str(Path(build) / 'results'))}" if build else ""
    whole = " --json" if query == _OF_CASE else ""  # a table cuts what is long
    return line_here(f"{command(['query'])} {quoted}{folder}{whole}")


def _reason(verdict: Verdict) -> str:
    """Return the whole reason of a verdict, in one line."""
    return whole_reason(verdict.reason, verdict.record.detail if verdict.record else "")


def _state_of(verdict: Verdict) -> str:
    stage = verdict.record.stage if verdict.record else ""
    return f"{verdict.state} in {stage}" if stage else verdict.state


def _red_case(commands: Commands, verdict: Verdict, rules: Rules, options: Sequence[str]) -> Iterator[str]:
    case, record = verdict.case, verdict.record
    reason = _reason(verdict)
    yield f"{_state_of(verdict)}: {case.id}\n  {cut(reason) or 'no reason was given'}"
    if len(reason) > MOST:
        yield f"  the whole: {_asked(_OF_CASE, case.id, options)}"
    if record and verdict.state == "fail" and (ratios := noises.in_words(record, _MOST_OUTPUTS)):
        yield f"  noise ratio: {ratios}"
    text = record.text if record and record.message else reason  # a pass may be an error by the report
    found = diagnose(text, record.stage if record else "", record.job if record else {}, rules())
    if (record and verdict.state == "error") or (found and not found.general):
        yield f"  {in_words(found, text)}"
    yield f"  repeat it: {line_here(commands.command(case.id, record), options)}"


_HEAD = ("output", "bits", "ULP median", "p99", "max", "max_abs A", "max_abs B", "noise A", "noise B")


def side_by_side(one: str, other: str, pairs: Sequence[CasePair]) -> Iterator[str]:
    """Yield the cases with the distances of their outputs, and errors and noise ratios of both sides."""
    yield f"A: {one}"
    yield f"B: {other}"
    for pair in pairs:
        yield ""
        yield f"{pair.name}: A {_state(pair.one)}, B {_state(pair.other)}"
        if pair.reason:
            yield f"  not compared: {pair.reason}"
            continue
        yield from _table([_HEAD, *(_row(pair, output) for output in pair.outputs)])
        yield from (line for output in pair.outputs for line in _difference(output))
    yield ""
    yield _of_pairs(pairs)


def _state(record: Record | None) -> str:
    if record is None:
        return "no result"
    return f"{record.outcome}{f' in {record.stage}' if record.stage else ''}"


def _row(pair: CasePair, output: OutputPair) -> tuple[str, ...]:
    name = output.one if output.one == output.other else f"{output.one} | {output.other}"
    far = output.distance
    figures = (
        ("-",) * 4 if far is None else (_bits(far), *(f"{value:.3g}" for value in (far.median, far.p99, far.largest)))
    )
    sides = ((pair.one, output.one), (pair.other, output.other))
    errors = [_metric(record, f"{side}.max_abs") for record, side in sides]
    return name, *figures, *errors, *(_ratio(record, side) for record, side in sides)


def _bits(far: Distance) -> str:
    if far.identical:
        return "same"
    return "same in the sample" if far.sample_identical else "differ"


def _metric(record: Record | None, name: str) -> str:
    value = record.metrics.get(name) if record else None
    return "-" if value is None else f"{value:.3g}"


def _ratio(record: Record | None, output: str) -> str:
    """Return the noise ratio; ``-`` where it is not known or the baseline has none."""
    ratio = noises.ratios(record).get(output) if record else None
    return "-" if ratio is None else f"{ratio:.3g}"


def _difference(output: OutputPair) -> Iterator[str]:
    """Yield where an output differs first, or why it was not compared."""
    if output.reason:
        yield f"  {output.one}: not compared: {output.reason}"
    elif output.distance and (first := output.distance.first):
        index = list(first.index)
        yield f"  {output.one} differs first at {index}: A {exact(first.one)}, B {exact(first.other)}"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows as aligned columns: two of text, then numbers."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
        numbers = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
        yield f"  {'  '.join([*texts, *numbers])}".rstrip()


def _of_pairs(pairs: Sequence[CasePair]) -> str:
    compared = [pair for pair in pairs if pair.outputs]
    same = sum(pair.identical for pair in compared)
    text = f"{counted(len(pairs), 'case')}, {len(compared)} compared: {same} bit-equal in all outputs"
    far = [
        (output.distance.p99, output.distance.largest, output.one, pair.name)
        for pair in compared
        for output in pair.outputs
        if output.distance and not output.distance.identical
    ]
    if not far:
        return f"{text}."
    p99, largest, output_name, case = max(far)
    return f"{text}. Furthest: {output_name} of {case}, p99 {p99:.3g} and max {largest:.3g} ULP."


def ended_lines(file: Path | None, ended: Sequence[RuleState]) -> list[str]:
    """Return what is wrong with the entries that have ended, and the edit of ``file`` that takes them out."""
    if not ended or file is None:
        return []
    document = Document(file)
    lines = [f"{_place(document, state)}: {state.sentence}" for state in ended]
    if edits := [state.edit for state in ended if state.edit]:
        lines.append("The edit, which `kernel-matrix check --expectations --write` makes:")
        lines += diff(file.read_text(encoding="utf-8"), edits, file.name).splitlines()
    return lines


def state_lines(file: Path, states: Iterable[RuleState]) -> Iterator[str]:
    """Yield one line for each entry: its state, its end, its owner and how many cases it covers."""
    document = Document(file)
    for state in states:
        rule = state.rule
        yield (
            f"{state.state:15} {_place(document, state)} {state.name}: until {rule.until}, "
            f"{counted(len(state.cases), 'case')}, {rule.owner}, {rule.link}"
        )
        if state.reason:
            yield f"{'':15} {state.reason}"


def _place(document: Document, state: RuleState) -> str:
    """Return the file and the line of an entry."""
    return f"{document.path.name}:{document.line((state.section, state.index))}"
