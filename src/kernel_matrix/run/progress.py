"""Show a person the progress of jobs: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from threading import Lock

from kernel_matrix.config.model import ASSERTED
from kernel_matrix.config.plan import Job
from kernel_matrix.store.record import Record

_SECONDS_BETWEEN_LINES = 15.0
_LONG, _SHORT = 600.0, 300.0  # seconds that are left when a sample is named, and that it takes
_NOT_BEGUN = "missing"  # the outcome of a case that nobody began


def in_progress(record: Record) -> str:
    """Return how a case has ended in the words of its state, as far as its record alone says it."""
    word = _passed(record) if record.outcome == "pass" else record.outcome
    return f"{word} (emulated)" if record.action == "emulate" and record.outcome in ("pass", "fail", "error") else word


def _passed(record: Record) -> str:
    if record.attempts:
        return "flaky"
    if record.action == "compile":
        return "lowered" if record.facts.get("artifact.kind", "").endswith("-source") else "compiled"
    is_asserted = record.case.rpartition("/")[0].endswith(f".{ASSERTED}")
    compared = any(name.endswith(".max_abs") for name in record.metrics)
    return "held" if is_asserted and not compared else "pass"


class Console:
    """Show the progress of several jobs at a time; safe to call from their threads."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._totals = {job.id: len(job.cases) for job in jobs}
        self._of_suites = {job.id for job in jobs if any(case.cell.direction == ASSERTED for case in job.cases)}
        self._counts: dict[str, Counter[str]] = {job.id: Counter() for job in jobs}  # how the cases of a job have ended
        self._texts = dict.fromkeys(self._totals, "waiting")
        self._printed: dict[str, float] = {}
        self._began: dict[str, float] = {}  # when the first case of a job had ended
        self._lock = Lock()
        self._table = None
        if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
            from kernel_matrix.run.progress_table import LiveTable  # rich takes long to import

            self._table = LiveTable(self._rows)

    def __enter__(self) -> Console:
        if self._table:
            self._table.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._table:
            self._table.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        (self._table.say if self._table else _say)(text)

    def job(self, job: str, text: str) -> None:
        """Show what the job is doing now."""
        with self._lock:
            if self._texts[job] == text:
                return
            self._texts[job] = text
        self._line(job)

    def case(self, job: str, outcome: str) -> None:
        """Count a case of the job that has ended."""
        with self._lock:
            self._counts[job][outcome] += 1
            now = time.monotonic()
            self._began.setdefault(job, now)
            due = now - self._printed.setdefault(job, now) > _SECONDS_BETWEEN_LINES
        if due:
            self._line(job)
            self._name_a_sample(job)

    def _line(self, job: str) -> None:
        """Print how far the job is, where no table is shown."""
        if self._table:
            return
        counts = self._counts[job]
        done = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if outcome != _NOT_BEGUN)
        with self._lock:
            self._printed[job] = time.monotonic()
        total = f" {_begun(counts)}/{self._totals[job]}" if counts else ""
        left = f", {counts[_NOT_BEGUN]} not begun" if counts[_NOT_BEGUN] else self._left(job)
        _say(f"{job}: {self._texts[job]}{total}{f' ({done})' if done else ''}{left}")

    def _name_a_sample(self, job: str) -> None:
        """Say once how a part of a suite runs that takes long."""
        seconds, more = self._seconds_left(job)
        if job in self._of_suites and seconds >= _LONG:
            self._of_suites.remove(job)
            some = max(1, int(more * _SHORT / seconds))
            self.say(f"{job}: its tests take long. In 5 minutes about {some} run: --sample {some}, or --case '*NAME*'")

    def _left(self, job: str) -> str:
        seconds, _ = self._seconds_left(job)
        return f", about {seconds / 60:.0f} min left" if seconds >= 60 else ""

    def _seconds_left(self, job: str) -> tuple[float, int]:
        """Return how long the other cases of a job take, if the pace stays as it is; and their number."""
        ended = sum(self._counts[job].values())
        more = self._totals[job] - ended
        return ((time.monotonic() - self._began[job]) * more / (ended - 1) if ended > 1 and more else 0.0), more

    def _rows(self) -> Iterator[tuple[str, str, Counter[str], str]]:
        """Yield for each job its name, how many of its cases have ended and how, and what it does."""
        for job, total in self._totals.items():
            counts = self._counts[job]
            yield job, f"{_begun(counts)}/{total}", counts, f"{self._texts[job]}{self._left(job)}"


class Lines:
    """Print what jobs do, a line each time."""

    def job(self, job: str, text: str) -> None:
        """Print it."""
        _say(f"{job}: {text}")

    def case(self, job: str, outcome: str) -> None:
        """Do nothing."""


def _begun(counts: Counter[str]) -> int:
    """Return how many cases were tried: what is missing is so since nobody began it."""
    return counts.total() - counts[_NOT_BEGUN]


def _say(text: str) -> None:
    """Print a line at once, in one piece: several threads do."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
