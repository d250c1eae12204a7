"""Show a person the progress of jobs: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from threading import Lock

from rich.live import Live
from rich.table import Table

from kernel_matrix.base.console import ColouredConsole
from kernel_matrix.config.model import ASSERTED
from kernel_matrix.config.plan import Job
from kernel_matrix.store.record import Record

_SECONDS_BETWEEN_LINES = 15.0
_COLOURS = {"pass": "green", "held": "green", "fail": "red", "error": "red", "known": "yellow", "missing": "magenta"}


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
        self._console = ColouredConsole()
        self._totals = {job.id: len(job.cases) for job in jobs}
        self._counts: dict[str, Counter[str]] = {job.id: Counter() for job in jobs}
        self._texts = dict.fromkeys(self._totals, "waiting")
        self._printed: dict[str, float] = {}
        self._began: dict[str, float] = {}  # when the first case of a job had ended
        self._lock = Lock()
        self._live = Live(
            console=self._console,
            get_renderable=self._table,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # what is printed is watched as it is
            redirect_stderr=False,
        )

    def __enter__(self) -> Console:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._console.is_terminal:
            self._console.print(self._table())

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False)

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

    def _line(self, job: str) -> None:
        """Print how far the job is, where no table is shown."""
        if self._console.is_terminal:
            return
        counts = self._counts[job]
        done = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        with self._lock:
            self._printed[job] = time.monotonic()
        total = f" {sum(counts.values())}/{self._totals[job]}" if counts else ""
        left = self._left(job)
        self._console.print(f"{job}: {self._texts[job]}{total}{f' ({done})' if done else ''}{left}", markup=False)

    def _left(self, job: str) -> str:
        """Return how long a job takes yet, if the other cases take as long as those that have ended."""
        ended = sum(self._counts[job].values())
        if not 1 < ended < self._totals[job]:
            return ""
        seconds = (time.monotonic() - self._began[job]) * (self._totals[job] - ended) / (ended - 1)
        return f", about {seconds / 60:.0f} min left" if seconds >= 60 else ""

    def _table(self) -> Table:
        """Return one line for each job."""
        table = Table("job", "cases", "ended as", "now", box=None, pad_edge=False)
        for job, total in self._totals.items():
            counts = self._counts[job]
            ended = " ".join(
                f"[{_COLOURS.get(outcome.partition(' ')[0], 'dim')}]{count} {outcome}[/]"
                for outcome, count in counts.items()
            )
            table.add_row(job, f"{sum(counts.values())}/{total}", ended, f"{self._texts[job]}{self._left(job)}")
        return table


class Lines:
    """Print what jobs do, a line each time."""

    def job(self, job: str, text: str) -> None:
        """Print it."""
        ColouredConsole().print(f"{job}: {text}", markup=False)

    def case(self, job: str, outcome: str) -> None:
        """Do nothing."""
