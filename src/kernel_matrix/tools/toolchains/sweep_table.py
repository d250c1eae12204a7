"""Attempts -> lines for a terminal: one for each attempt, and why it stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table

from kernel_matrix.diagnosis import Rule, diagnose_all, in_words
from kernel_matrix.probes import attempts as stages
from kernel_matrix.probes.attempts import WITHOUT_IMPORT, Attempt
from kernel_matrix.probes.distributions import picked
from kernel_matrix.probes.expected import VERDICTS
from kernel_matrix.results.states import STATES
from kernel_matrix.tools.toolchains.subject import Subject


def table(subject: Subject, attempts: Sequence[Attempt]) -> Table:
    """Return a table with one line for each attempt: the stages that it passed."""
    result = Table(subject.package, *stages.STAGES, "picked", box=None, pad_edge=False)
    for attempt in attempts:
        counts = Counter(probe.verdict for probe in attempt.probes.values())
        probes = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
        states = Counter(case.state for case in attempt.cases.values())
        cases = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
        versions = picked(subject.project.matrix, subject.package, attempt.pins, attempt.versions)
        name = " + ".join(part for part in (attempt.version, attempt.pinned) if part)
        of_interest = ", ".join(f"{name} {version}" for name, version in versions.items())
        result.add_row(name, *_marks(attempt), probes or "-", cases or "-", of_interest)
    return result


def _marks(attempt: Attempt) -> Iterator[str]:
    """Yield a mark for each stage up to the import: passed, stopped there, or not reached."""
    for stage in WITHOUT_IMPORT:
        if attempt.stopped == stage:
            yield "[red]✗[/]"
        elif attempt.stopped and stages.STAGES.index(attempt.stopped) < stages.STAGES.index(stage):
            yield ""
        else:
            yield "✓"


def stops(attempts: Sequence[Attempt], rules: tuple[Rule, ...]) -> Iterator[str]:
    """Yield why each version stopped, with the cause; probes that changed are in the table."""
    errors = {number: error for number, attempt in enumerate(attempts) if (error := attempt.error)}
    for number, diagnosis in zip(errors, diagnose_all([*errors.values()], rules), strict=True):
        attempt = attempts[number]
        pins = f" + {attempt.pinned}" if attempt.pins else ""
        yield f"{attempt.version}{pins} stopped at {attempt.stopped}: {attempt.message}"
        yield f"  {in_words(diagnosis, errors[number][0])}"
