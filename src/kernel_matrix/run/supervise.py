"""One job's processes: start them, follow their journal, and write the ends that a dead one could not."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_matrix.config.plan import Case
from kernel_matrix.job.journal import Event, Journal
from kernel_matrix.results.record import Outcome, Record
from kernel_matrix.run import job_command as process
from kernel_matrix.run import preflight as preflight
from kernel_matrix.run.executors import Child, Interpreter, MachineError, Request

_POLL_SECONDS = 0.05
_ROOM = 1 << 16  # bytes without which a job cannot say what it does
_LOG_TAIL = 60  # lines of a dead process's output that go into its case


class StoppedError(Exception):
    """Whoever asked for the run wants it to end."""


class Supervisor:
    """Start processes for a job until each of its cases has ended, and write the ends that a dead one could not."""

    def __init__(
        self,
        request: Request,
        actions: Mapping[str, str],
        interpreter: Interpreter,
        ended: Callable[[Record], None],
        stop: threading.Event,
    ) -> None:
        """``actions`` says for each case of the job that is to run what to do; ``ended`` gets each case's record."""
        self.request, self.actions, self.interpreter, self.ended, self.stop = request, actions, interpreter, ended, stop
        self.matrix, self.job, self.folder = request.matrix, request.job, request.folder
        self.limits = self.matrix.limits
        self.deadline = time.monotonic() + self.limits.job
        self.journal = Journal(self.folder / "journal.jsonl")
        self.log = self.folder / "log.txt"
        self.records: dict[str, Record] = {}
        self.in_flight: Event | None = None
        self.stage = "import"
        self.since = 0.0  # when the case in flight, or the process, began
        self.tried: dict[str, list[str]] = {}
        self.broken: Event | None = None
        self.environment: dict[str, str] = {}

    def run(self, *, resume: bool) -> dict[str, str]:
        """Run all cases; return what the job's processes said of their environment.

        Raises:
            StoppedError: before all cases had ended; the journal keeps what has.
        """
        cases = [case for case in self.job.cases if case.id in self.actions]
        try:
            self._begin(cases, resume=resume)
            while remaining := [case for case in cases if case.id not in self.records]:
                if time.monotonic() >= self.deadline:
                    self._give_up(remaining, "missing", "", f"the job's time limit of {self.limits.job:g} s came first")
                    break
                self._one_process(remaining)
        except MachineError as error:
            self._machine_failed(cases, str(error))
        except OSError as error:  # of the harness's own files: no room, most likely
            self._machine_failed(cases, f"{error.strerror or error}: {error.filename or self.folder}")
        finally:
            self.journal.close()
        return self.environment

    def _begin(self, cases: Sequence[Case], *, resume: bool) -> None:
        """Take up the journal of an interrupted run of the same cases, or begin anew."""
        self.folder.mkdir(parents=True, exist_ok=True)
        specification = process.specification(self.request, self.actions, cases)
        job_file = self.folder / "job.json"
        if resume and self.journal.path.exists() and job_file.exists() and job_file.read_text() == specification:
            copy = self.journal.path.with_suffix(".copy")  # a process of that run may still be writing into the other
            shutil.copyfile(self.journal.path, copy)
            copy.replace(self.journal.path)
        else:
            self.journal.path.unlink(missing_ok=True)
            self.log.unlink(missing_ok=True)
        job_file.write_text(specification)
        self._take_in()
        self._end_in_flight("crash", "the job was interrupted while this case ran")

    def _one_process(self, remaining: Sequence[Case]) -> None:
        """Run what remains in one process, until it ends or has to be ended."""
        attempts = {case.id: len(self.tried.get(case.id, ())) + 1 for case in remaining}
        todo = self.folder / "todo.json"
        todo.write_text(process.specification(self.request, self.actions, remaining, attempts))
        before = self.log.stat().st_size if self.log.exists() else 0
        ended_before = len(self.records) + sum(map(len, self.tried.values()))
        child = self._start(todo)
        try:
            status = self._watch(child)
        except MachineError as error:
            self._take_in()
            if self.in_flight is None:
                raise
            self._lose(str(error))
            return
        except BaseException:
            with contextlib.suppress(MachineError):
                child.kill()
            raise
        if status:
            self._demand_room()
        output = self._output(before)
        how = death(status or 0, self.stage, child.why)
        if status is not None:
            self._end_in_flight("crash", how, output)
        still = [case for case in remaining if case.id not in self.records]
        progressed = len(self.records) + sum(map(len, self.tried.values())) > ended_before
        if still and not progressed and time.monotonic() < self.deadline:
            if self.broken:
                self._give_up(still, "error", "import", self.broken["message"], self.broken["detail"])
            elif status in (0, 5):
                ops = ", ".join(sorted({f"{case.cell.op!r}, {case.cell.direction!r}" for case in still}))
                self._give_up(still, "missing", "", f"the suite has no test marked op({ops})")
            else:
                said = [line for line in output.splitlines() if line.strip()]
                self._give_up(still, "error", "import", said[-1] if said and not child.why else how, output)

    def _start(self, todo: Path) -> Child:
        """Start a process on the cases of ``todo``, if the device is fit for work."""
        preflight.check(self.request, self.interpreter)
        self.broken, self.since, self.stage = None, time.monotonic(), "import"
        command = process.arguments(self.request, self.interpreter, todo, self.journal.path)
        variables = process.environment(self.request, self.interpreter)
        return self.interpreter.start(command, variables, self.request.root, self.log)

    def _watch(self, child: Child) -> int | None:
        """Follow the journal until the process ends; None if it had to be killed."""
        while True:
            status = child.poll()
            self._take_in()
            now = time.monotonic()
            if status is not None:
                return status
            if self.stop.is_set():
                child.kill()
                raise StoppedError
            if now >= self.deadline:
                child.kill()
                self._take_in()
                self._end_in_flight(
                    "timeout", f"the job's time limit of {self.limits.job:g} s ended it in {self.stage}"
                )
                return None
            if now - self.since > self.limits.case:
                child.kill()
                self._take_in()
                if self.in_flight:
                    self._end_in_flight("timeout", f"no end after {self.limits.case:g} s, in stage {self.stage}")
                else:
                    message = f"the suite did not start its next case within {self.limits.case:g} s"
                    self.broken = self.broken or {"message": message, "detail": self._output(0)}
                return None
            time.sleep(_POLL_SECONDS)

    def _take_in(self) -> None:
        """Take in what the journal has new."""
        for event in self.journal.new_events():
            match event["event"]:
                case "job":
                    self.environment = {key: str(value) for key, value in event["facts"].items()}
                case "start":
                    self.in_flight, self.since, self.stage = event, time.monotonic(), "import"
                case "stage":
                    self.stage = event["stage"]
                case "end":
                    self._case_ended(event)
                case "lost":
                    self.in_flight = None
                case "broken":
                    self.broken = event

    def _case_ended(self, event: Event) -> None:
        self.in_flight, self.since = None, time.monotonic()
        case, outcome = event["case"], event["outcome"]
        earlier = self.tried.setdefault(case, [])
        if outcome not in ("pass", "unavailable") and len(earlier) + 1 < self.limits.attempts:
            earlier.append(f"{outcome}:{event.get('stage') or ''}".rstrip(":"))
            return
        self._end(
            Record(
                case=case,
                outcome=outcome,
                action=event.get("action", ""),
                stage=event.get("stage") or "",
                message=event.get("message") or "",
                detail=event.get("detail") or "",
                seconds=event.get("seconds", 0.0),
                attempts=tuple(earlier),
                metrics=event.get("metrics", {}),
                facts=event.get("facts", {}),
            ),
        )

    def _end(self, record: Record) -> None:
        message, detail = (
            process.portable(self.request, self.interpreter, text) for text in (record.message, record.detail)
        )
        record = replace(record, message=message, detail=detail)
        self.records[record.case] = record
        self.ended(record)

    def _lose(self, message: str) -> None:
        """The machine took the case in flight away: that says nothing of the case, and a resumed run tries it again."""
        if self.in_flight is None:
            return
        case, seconds = self.in_flight["case"], max(0.0, time.monotonic() - self.since)
        with contextlib.suppress(OSError):  # a full disk may be the very reason
            self.journal.write("lost", case=case, message=message)
        self.in_flight = None
        self._end(Record(case, "error", "", "machine", message, seconds=seconds, facts={"during": self.stage}))

    def _demand_room(self) -> None:
        """A process that ended badly on a full disk ended so because of that, and could not say it."""
        probe = self.folder / "room"
        try:
            probe.write_bytes(b"\0" * _ROOM)
        finally:
            probe.unlink(missing_ok=True)

    def _machine_failed(self, cases: Iterable[Case], message: str) -> None:
        self._lose(message)
        self._give_up(cases, "error", "machine", message)

    def _end_in_flight(self, stage: str, message: str, detail: str = "") -> None:
        """Write the end of a case whose process could not."""
        if self.in_flight is None:
            return
        seconds = max(0.0, time.monotonic() - self.since)
        fields: dict[str, Any] = {"case": self.in_flight["case"], "action": self.in_flight["action"]}
        fields |= {"attempt": self.in_flight["attempt"], "outcome": "error", "stage": stage, "seconds": seconds}
        self.journal.write("end", **fields, message=message, detail=detail, facts={"during": self.stage})
        self._take_in()

    def _give_up(self, cases: Iterable[Case], outcome: Outcome, stage: str, message: str, detail: str = "") -> None:
        for case in cases:
            if case.id not in self.records:
                self._end(Record(case.id, outcome, "", stage, message, detail))

    def _output(self, start: int) -> str:
        """The last lines of what the process printed."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(start)
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL:])


def death(status: int, stage: str, why: str = "") -> str:
    """How a process ended, in words: by its exit status (negative: by that signal), and why if that is known."""
    how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
    return f"the process {how} in stage {stage}{f': {why}' if why else ''}"
