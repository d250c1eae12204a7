"""The words of reports: the meaning of each state, and one sentence about all cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kernel_matrix.base.commands import line_here
from kernel_matrix.base.words import counted
from kernel_matrix.results.noise import as_float
from kernel_matrix.results.states import NO_RESULT, RED_FIRST, State

if TYPE_CHECKING:  # the models take long to make, and many commands need only words
    from kernel_matrix.report.difference import Difference
    from kernel_matrix.report.document import Cell, Document, Noise, Number

NOTHING = "No case has a result, so nothing was tested: this is no success."
# The colour that each state has everywhere, and what a reader needs to know of it.
MEANING: dict[State, tuple[str, str]] = {
    "pass": ("#1a7f37", "ran or was emulated, and every number is inside its error budget"),
    "held": ("#0f8b8d", "passed by the suite's own assertions; no number was compared"),
    "told": (
        "#6a5acd",
        "a person says, with a signature, that it ran and passed on a machine that is not the project's",
    ),
    "compiled": ("#2f6fde", "a compiler made machine code for this target; nothing ran it"),
    "lowered": ("#7aa5ec", "source was generated for this target; nothing here compiled it"),
    "known": ("#b7791f", "expected failure: fails exactly as matrix.yaml expects, with its reason"),
    "flaky": ("#d9730d", "passed only on a repeat"),
    "fixed": ("#a626a4", "unexpected pass: take the expectation out of matrix.yaml"),
    "fail": (
        "#cf222e",
        "a number is outside its budget, an assertion does not hold, or the code is over a limit",
    ),
    "error": ("#8c1d18", "none of its numbers count: the stage says where it stopped, and the message why"),
    "missing": ("#5b1a66", "planned, and no result came, or it was refused"),
    "unavailable": (
        "#8a939c",
        "no such hardware here, and nothing to compile without it; or a test is skipped, or says that it needs a GPU",
    ),
    "excluded": ("#c3c9cf", "left out by matrix.yaml, with its reason"),
}
# What other test runners call a state: whoever searches the page for such a word finds the state.
ELSEWHERE: dict[State, tuple[str, ...]] = {
    "pass": ("passed", "ok", "success"),
    "held": ("passed", "ok", "success"),
    "known": ("xfail", "xfailed", "expected"),
    "flaky": ("rerun", "retried"),
    "fixed": ("xpass", "xpassed", "unexpected"),
    "fail": ("failed", "failure"),
    "missing": ("lost", "cancelled"),
    "unavailable": ("skip", "skipped"),
    "excluded": ("ignored", "deselected"),
}
_MOST_CELLS = 10  # of each kind, on a terminal
STALE = "measured with other files, another lock or other versions than its job would have today"


def headline(document: Document) -> str:
    """Return one sentence for people: what is known of how many cells, and what is not."""
    run = document.run
    evidence, state = run.cells_by_evidence, run.cells_by_state
    counts = {
        "ran": evidence.get("ran"),
        "ran in an emulator": evidence.get("emulated"),
        "ran under the suite's own assertions": evidence.get("held"),
        "told by a person outside the project": evidence.get("told"),
        "compiled": evidence.get("compiled"),
        "became source": evidence.get("lowered"),
        "failed as expected": state.get("known"),
        "had no device or a skipped test": state.get("unavailable"),
        "were left out": state.get("excluded"),
    }
    known = [f"{count} {words}" for words, count in counts.items() if count]
    red = [f"{state[name]} {name}" for name in RED_FIRST if name in state]
    parts = [f"Of {counted(run.cells, 'cell')} {', '.join(known) or _none(run.cases_by_state)}."]
    if others := run.emulated - (told := evidence.get("emulated", 0)):
        parts.append(f"{others}{' more' if told else ''} {'was' if others == 1 else 'were'} emulated.")
    if run.stale:
        parts.append(f"{run.stale} {'is' if run.stale == 1 else 'are'} stale.")
    no_red = "None is red." if run.cases_by_state.keys() - NO_RESULT else NOTHING
    parts.append(f"Red: {', '.join(red)}." if red else no_red)
    return " ".join(parts)


def _none(cases: Mapping[State, int]) -> str:
    """Return what is to be said of the cells if no cell has more than cases that did not end well."""
    if not cases.keys() - NO_RESULT:
        return "none has a result"
    return "none has all of its results" if cases.get("missing") else "none ended well"


def counts(difference: Difference) -> str:
    """Return how much differs between two runs, such as ``1 broke, 2 less exact``; empty if nothing does."""
    sizes = {
        "broke": difference.broke,
        "mended": difference.mended,
        "less exact": difference.less_exact,
        "slower": difference.slower,
        "gone": difference.gone,
        "changed otherwise": difference.changed,
    }
    return ", ".join(f"{len(changes)} {words}" for words, changes in sizes.items() if changes)


def in_lines(difference: Difference) -> Iterator[str]:
    """Yield the difference of two runs as lines for a terminal."""
    changed = counts(difference) or "nothing differs"
    same = f"{counted(difference.same, 'cell')} not red, {difference.still_red} red"
    yield f"against {difference.base}: {changed}; in the same state: {same}"
    groups = {"broke": difference.broke, "gone": difference.gone, "mended": difference.mended}
    for title, changes in (groups | {"changed": difference.changed}).items():
        for one in changes[:_MOST_CELLS]:
            reason = one.reason.partition("\n")[0][:200]
            yield f"{title}: {one.cell}: {one.before} -> {one.after}{f': {reason}' if reason else ''}"
            if title == "broke":
                yield f"  repeat it: {line_here(one.repeat)}"
        if len(changes) > _MOST_CELLS:
            yield f"{title}: {len(changes) - _MOST_CELLS} more cells, which --json and --markdown list"
    for less in difference.less_exact:
        yield (
            f"less exact: {less.cell}, {less.dtype} {less.output}: {less.figure} "
            f"{less.before:.3g} -> {less.after:.3g}, over {less.limit:.3g} ({less.why})"
        )
        yield f"  repeat it: {line_here(less.repeat)}"
    for slow in difference.slower:
        yield (
            f"slower: {slow.cell}/{slow.case}: {slow.before:.2f} -> {slow.after:.2f} times as fast as the baseline, "
            f"since {slow.since} (commit {slow.commit or 'unknown'}; {slow.runs} runs)"
        )
    yield from difference.notes


def noise_words(cell: Cell) -> str:
    """Return the least exact output of each dtype, such as ``bf16 r 2.38 ×``; ``not measured`` if nothing ran."""
    parts = [f"{dtype} {_words(*least_exact(outputs.items()))}" for dtype, outputs in cell.noise.items()]
    return ", ".join(parts) or "not measured"


def percent(share: Number | None) -> str:
    """Return a share in per cent, with two digits; empty if it is not known."""
    return "" if share is None else f"{float(share) * 100:.2g} %"


def _words(output: str, noise: Noise) -> str:
    text = f"{output} {'exact in the baseline' if noise.ratio is None else f'{ratio_in_short(noise.ratio)} ×'}"
    if noise.misrounded is not None:
        text += f" (misrounded {percent(noise.misrounded)}, baseline {percent(noise.floor_misrounded)})"
    return text


def least_exact(outputs: Iterable[tuple[str, Noise]]) -> tuple[str, Noise]:
    """Return the output with the largest noise ratio."""
    return max(outputs, key=lambda item: -1.0 if item[1].ratio is None else as_float(item[1].ratio))


def ratio_in_short(ratio: float | str) -> str:
    """Return a ratio in four characters or less, where it is no larger than 9999."""
    value = as_float(ratio)
    if math.isinf(value):
        return "∞"
    if value >= 9999.5:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
