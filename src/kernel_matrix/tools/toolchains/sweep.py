"""Try many versions of a package, several at a time, and keep the attempts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Lock

from packaging.version import Version
from rich.table import Table

from kernel_matrix.diagnosis import Rule, diagnose_all, in_words
from kernel_matrix.probes import attempts as stages
from kernel_matrix.probes.attempts import WITHOUT_IMPORT, Attempt, Sweep
from kernel_matrix.probes.distributions import picked
from kernel_matrix.probes.expected import VERDICTS
from kernel_matrix.results.states import STATES
from kernel_matrix.tools.toolchains.subject import Subject
from kernel_matrix.tools.toolchains.try_version import try_version


def sweep(
    subject: Subject,
    versions: Iterable[Version],
    pairs: Mapping[str, Sequence[str]],
    workers: int,
    on_attempt: Callable[[Attempt], object] = lambda _: None,
) -> list[Attempt]:
    """Try every version with every combination of the pins in ``pairs``. Without pins the installer picks the rest.

    ``on_attempt`` is called with each attempt as it ends, one at a time.
    """
    combinations = [dict(zip(pairs, values, strict=True)) for values in product(*pairs.values())]
    work = [(str(version), pins) for version in versions for pins in combinations]
    lock = Lock()

    def attempt_one(version_and_pins: tuple[str, Mapping[str, str]]) -> Attempt:
        attempt = try_version(subject, *version_and_pins)
        with lock:
            on_attempt(attempt)
        return attempt

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(attempt_one, work))


def as_sweep(subject: Subject, attempts: Sequence[Attempt], devices: Sequence[str] | None = None) -> Sweep:
    """Return the attempts as a file keeps them; ``devices`` are another machine's."""
    here = [device.name for device in subject.machine.devices]
    return Sweep(
        package=subject.package,
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        machine=here if devices is None else list(devices),
        toolchain=subject.toolchain or "" if subject.is_axis else "",
        case=", ".join(subject.cases) or None,
        probes=[probe.id for probe in subject.probes],
        attempts=list(attempts),
    )


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
