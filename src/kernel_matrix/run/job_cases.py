"""Follow the cases of a job while it runs: read its journal, and make a record of each case that has ended."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from kernel_matrix.config.plan import Case
from kernel_matrix.job.journal import FIRST_STAGE, Entry, Journal
from kernel_matrix.run.executors import Interpreter, Request
from kernel_matrix.run.job_command import portable
from kernel_matrix.store.journal import Ends
from kernel_matrix.store.record import Outcome, Record

# How a case ends whose process got one of the signals that also end a whole run. A cluster sends them to all processes
# of a job at once, so the kernel's may die of it before the harness knows that it is to end.
_FROM_OUTSIDE = re.compile(r"the process died of SIG(TERM|INT|HUP|KILL) in stage ")


def is_from_outside(entry: Entry) -> bool:
    """Return whether an entry ends a case by a signal that may have ended the run, too."""
    ended = entry["entry"] == "end" and entry.get("stage") == "crash"
    return ended and bool(_FROM_OUTSIDE.match(entry.get("message") or ""))


def without_lost(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries of a journal without the ends that came with the end of the run: such a case was lost."""
    held: Entry | None = None
    for entry in entries:
        lost = held is not None and entry["entry"] == "lost" and entry["case"] == held["case"]
        if held is not None and not lost:
            yield held
        held = entry if is_from_outside(entry) else None
        if held is None:
            yield entry
    if held is not None:
        yield held


class Cases:
    """The cases of one job: those that have ended, the one that runs, and the rest of the journal."""

    def __init__(
        self,
        request: Request,
        interpreter: Interpreter,
        journal: Journal,
        ended: Callable[[Record], None],
        stopping: Callable[[], bool],
    ) -> None:
        """Begin without any case; ``ended`` gets the record of each case.

        ``stopping`` waits for a moment, and returns whether the run is to end.
        """
        self.stopping = stopping
        self.request, self.interpreter, self.journal, self.ended = request, interpreter, journal, ended
        self.journaled = Ends(request.matrix.limits.attempts)
        self.records: dict[str, Record] = {}
        self.in_flight: Entry | None = None  # the start of the case that runs
        self.stage = FIRST_STAGE  # of the case that runs
        self.began = time.monotonic()  # the start of that case, or of the process
        self.waited = 0.0  # seconds since then that no limit counts: for quiet, or for a core that others used
        self.broken: Entry | None = None  # the entry that says that the suite does not import
        self.asks = ""  # whether the process waits for quiet ("quiet"), or to go on after it ("measured")

    @property
    def environment(self) -> dict[str, str]:
        """Return what the job's processes said of their environment."""
        return self.journaled.facts

    @property
    def tries(self) -> int:
        """Return the number of attempts at cases that have ended."""
        return len(self.records) + sum(map(len, self.journaled.earlier.values()))

    def attempt_at(self, case: str) -> int:
        """Return the number of the case's next attempt, from 1."""
        return len(self.journaled.earlier.get(case, ())) + 1

    def remaining(self, cases: Iterable[Case]) -> list[Case]:
        """Return the ``cases`` that have not ended."""
        return [case for case in cases if case.id not in self.records]

    def process_begins(self) -> None:
        """Forget the state of the process before."""
        self.broken, self.stage, self.asks = None, FIRST_STAGE, ""
        self._begin()

    def take_in(self) -> None:
        """Take in the new entries of the journal."""
        for entry in self.journal.new_entries():
            if is_from_outside(entry) and self.stopping():
                continue  # the case is still in flight, and lost with the run
            ended = self.journaled.take(entry)
            match entry["entry"]:
                case "start":
                    self.in_flight = entry
                    self._begin()
                    self.stage = entry.get("stage", FIRST_STAGE)
                case "stage":
                    self.stage = entry["stage"]
                case "quiet" | "measured":
                    self.asks = entry["entry"]
                case "end":
                    self.in_flight = None
                    self._begin()
                case "lost":
                    self.in_flight = None
                case "broken":
                    self.broken = entry
            if ended:
                self._end(ended)

    def end_in_flight(self, stage: str, message: str, detail: str = "") -> None:
        """Write the end of the case in flight, if there is one: its process could not."""
        if self.in_flight is None:
            return
        fields: dict[str, Any] = {name: self.in_flight[name] for name in ("case", "action", "attempt")}
        fields |= {"outcome": "error", "stage": stage, "message": message, "detail": detail}
        self.journal.write("end", **fields, seconds=self.seconds(), facts={"during": self.stage})
        self.take_in()

    def lose_in_flight(self, message: str) -> None:
        """End the case in flight as lost with the machine. This is no result: a resumed run tries the case again."""
        if self.in_flight is None:
            return
        case, seconds = self.in_flight["case"], self.seconds()
        with contextlib.suppress(OSError):  # a full disk may be the very reason
            self.journal.write("lost", case=case, message=message)
        self.in_flight = None
        self._end(Record(case, "error", "", "machine", message, seconds=seconds, facts={"during": self.stage}))

    def give_up(self, cases: Iterable[Case], outcome: Outcome, stage: str, message: str, detail: str = "") -> None:
        """End all of ``cases`` that have not ended."""
        for case in self.remaining(cases):
            self._end(Record(case.id, outcome, "", stage, message, detail))

    def _begin(self) -> None:
        self.began, self.waited = time.monotonic(), 0.0

    def _end(self, record: Record) -> None:
        """Keep and pass on the record, without the folders of this machine."""
        message = portable(self.request, self.interpreter, record.message)
        detail = portable(self.request, self.interpreter, record.detail)
        self.records[record.case] = replace(record, message=message, detail=detail)
        self.ended(self.records[record.case])

    def seconds(self) -> float:
        """Return how long the case in flight has run, or the process if there is none."""
        return max(0.0, time.monotonic() - self.began - self.waited)
