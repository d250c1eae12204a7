"""Say the findings in lines for a terminal and as a page of Markdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kernel_matrix.base.words import counted
from kernel_matrix.config.plan import Case, Cell
from kernel_matrix.results.states import Verdict
from kernel_matrix.tools.launches import card_words, emulated
from kernel_matrix.tools.launches.naming import kernel_of
from kernel_matrix.tools.launches.recording import Options, Recording

_MOST = 20


def sample_of(options: Options) -> str:
    """Return which launches are compiled, as a sentence."""
    calls = _first(options.specialisations, "specialisation")
    tuned = _first(options.configurations, "configuration")
    return f"Compiled: of each kernel {calls}, and of an autotuned one {tuned}."


def _first(most: int | None, noun: str) -> str:
    """Return how many of several are taken at most."""
    return f"every {noun}" if most is None else f"the first {noun}" if most == 1 else f"at most {most} {noun}s"


def recorded_lines(recording: Recording) -> Iterator[str]:
    """Yield what a recording is, and what is not known of it."""
    kernels = {kernel_of(launch) for launch in recording.launches}
    tuned = sum(launch.tuned is not None for launch in recording.launches)
    yield (
        f"told that it runs on {recording.told.name}: "
        f"{counted(recording.total, 'launch', 'launches')} of {counted(len(kernels), 'kernel')}, "
        f"{len(recording.launches)} of them distinct ({tuned} are configurations of autotuned launches); "
        f"{len(recording.taken)} compiled for {counted(len(recording.targets), 'target')}"
    )
    if computed := sum(launch.emulated for launch in recording.launches):
        held = "" if recording.fault else ", and the program ended well"
        yield f"  the interpreter computed {computed} of the distinct launches{held}"
    yield from emulated.lines(recording)
    yield from card_words.lines(recording)
    if recording.fault:
        yield f"  the program did not end well, so what it would launch later is not known: {recording.fault[:300]}"
    yield from _counted("  not answered by the stand-in for a GPU", recording.unanswered)
    yield from _counted("  answered without knowing", recording.assumed)


def _counted(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    for number, (text, count) in enumerate(counts.items()):
        if number == _MOST:
            yield f"{title}: {len(counts) - _MOST} more"
            return
        yield f"{title}: {text}{f' ({count} times)' if count > 1 else ''}"


def cell_lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the states by target, why some are not known, and each error and wrong number once with its kernels."""
    states: dict[str, Counter[str]] = defaultdict(Counter)
    unavailable: Counter[str] = Counter()
    wrong: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for verdict in verdicts:
        case: Case = verdict.case
        states[case.cell.target][verdict.state] += 1
        if verdict.state == "unavailable":
            unavailable[verdict.reason] += 1
        if verdict.state in ("error", "fail") and verdict.record:
            stage = f" in stage {verdict.record.stage}" if verdict.state == "error" else ""
            wrong[f"{verdict.state}{stage}: {verdict.reason[:300]}"][case.cell.op].add(case.cell.target)
    for target, counts in states.items():
        yield f"{target}: {', '.join(f'{count} {state}' for state, count in counts.items())}"
    for message, count in unavailable.items():
        yield f"unavailable: {message[:300]} ({counted(count, 'case')})"
    for message, ops in wrong.items():
        where = "; ".join(f"{op} on {' '.join(sorted(targets))}" for op, targets in ops.items())
        yield f"{message}\n    {where}"


def page(
    recordings: Sequence[Recording], verdicts: Sequence[Verdict], options: Options, program: str, package: str
) -> str:
    """Return all of it as Markdown, with the largest figures of each kernel on each target."""
    lines = [f"# {package}: what `{program}` launches, compiled", "", sample_of(options), "", "## Recorded", ""]
    lines += [f"- {line.strip()}" for recording in recordings for line in recorded_lines(recording)]
    lines += ["", "## States and errors", "", *(f"- {line}" for line in cell_lines(verdicts))]
    if rows := list(card_words.table(recordings)):
        lines += ["", "## The emulator beside the GPU", "", *rows]
    return "\n".join([*lines, "", *_FIGURES_HEAD, *_figure_rows(verdicts), ""])


_FIGURES = ("registers", "spills", "shared", "threads", "code_bytes")
_FIGURES_HEAD = (
    "## Figures",
    "",
    "The largest of all compiled launches of a kernel: registers of a thread, the bytes of them that it spills, shared",
    "memory in bytes, threads of a block, and bytes of code.",
    "",
    "| kernel | target | launches | registers | spills | shared | threads | code |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def _figure_rows(verdicts: Sequence[Verdict]) -> Iterator[str]:
    by_cell: dict[Cell, list[Mapping[str, float]]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.record and verdict.record.metrics:
            by_cell[verdict.case.cell].append(verdict.record.metrics)
    for cell, metrics in by_cell.items():
        texts = [cell.op, cell.target, str(len(metrics)), *largest(metrics)]
        yield f"| {' | '.join(texts)} |"


def largest(metrics: Sequence[Mapping[str, float]]) -> list[str]:
    """Return registers, spills, shared memory, threads and bytes of code of some results, the largest of each."""
    return [f"{max(one.get(f'artifact.{name}', 0) for one in metrics):.0f}" for name in _FIGURES]
