"""Supervise one job's processes: start them, follow their journal, and write the ends that a dead process could not."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from kernel_matrix.base.waiting import wait_until
from kernel_matrix.config.plan import Case
from kernel_matrix.config.suite import is_suite
from kernel_matrix.job import own_files, quiet
from kernel_matrix.job.handed import words
from kernel_matrix.job.journal import Entry, Journal
from kernel_matrix.run import job_command, preflight
from kernel_matrix.run.executors import Child, Interpreter, MachineError, Request
from kernel_matrix.run.job_cases import Cases, without_lost
from kernel_matrix.run.own_time import OwnTime, load
from kernel_matrix.run.proven import Mark, Proven, remove_old
from kernel_matrix.run.quiet import Share
from kernel_matrix.run.room import Room
from kernel_matrix.store.record import Record

ENDED = "the run was ended before this case: run it again; --resume goes on where it stopped"
_CUT = "the run was ended while this case ran: run it again; --resume tries it first"
JOB_LIMIT = "the job's time limit"  # in the message of a case that it ended, or that it came before
_KILLED: Literal["killed"] = "killed"
_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
_TO_STOP = 1.0  # seconds after which this process knows of a signal that all processes got
_NO_TESTS_RAN = (0, 5)  # pytest's exit statuses


class StoppedError(Exception):
    """The run is to end before all cases have ended."""


class Supervisor:
    """Start processes for a job until each of its cases has ended."""

    def __init__(
        self,
        request: Request,
        actions: Mapping[str, str],
        interpreter: Interpreter,
        ended: Callable[[Record], None],
        stop: threading.Event,
        share: Share,
        known: Mapping[str, str],
    ) -> None:
        """``actions`` says for each case of the job that is to run what to do; ``ended`` gets each case's record.

        ``known`` are the facts of the job that are known before it runs: what it reads, and its environment.
        """
        self.known = known
        self.request, self.actions, self.interpreter, self.stop = request, actions, interpreter, stop
        self.share, self.looked = share, time.monotonic()
        self.own_time: OwnTime | None = None  # of the process that runs
        self.folder, self.limits = request.folder, request.limits
        self.deadline = time.monotonic() + self.limits.job
        self.journal = Journal(self.folder / "journal.jsonl")
        self.mark: Mark | None = None  # how far the journal is proven
        self.log = self.folder / "log.txt"
        self.cases = Cases(request, interpreter, self.journal, ended, lambda: stop.wait(_TO_STOP))
        most = request.matrix.container.folder * (1 << 30)
        self.room = Room(self.folder, most, (self.journal.path.name, "job.json"))

    def run(self, *, resume: bool) -> dict[str, str]:
        """Run all cases; return what the job's processes said of their environment.

        If the run is ended before, the case that runs is an error of the machine, and those that have not begun are
        missing. The journal keeps what has ended.
        """
        cases = [case for case in self.request.job.cases if case.id in self.actions]
        try:
            self._begin(cases, resume=resume)
            while remaining := self.cases.remaining(cases):
                if self.stop.is_set():
                    raise StoppedError
                if time.monotonic() >= self.deadline:
                    message = f"{JOB_LIMIT} of {self.limits.job:g} s came first"
                    self.cases.give_up(remaining, "missing", "", message)
                    break
                self._run_process(remaining)
        except StoppedError:
            self.cases.lose_in_flight(_CUT)  # what has begun and not ended is no case that nobody tried
            self.cases.give_up(cases, "missing", "", ENDED)
        except MachineError as error:
            self._machine_failed(cases, str(error))
        except OSError as error:  # of the harness's own files: no room, most likely
            self._machine_failed(cases, f"{error.strerror or error}: {error.filename or self.folder}")
        finally:
            if self.mark:
                self.mark.note(self.journal)
                self.mark.close()
            self.journal.close()
        return self.cases.environment

    def _begin(self, cases: Sequence[Case], *, resume: bool) -> None:
        """Take up the journal of an interrupted run of the same cases, or begin anew."""
        if self.folder.is_symlink():  # an earlier kernel has left it
            self.folder.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        specification = job_command.specification(self.request, self.actions, cases, known=self.known)
        earlier: list[Entry] = []
        if resume:
            proven = Proven(self.journal.path, self.request.build, self.request.job.id)
            with contextlib.suppress(OSError):  # nothing is proven
                earlier = [*without_lost(proven.new_entries(specification))]
                proven.settle()
        if not earlier:
            own_files.remove(self.log)
        own_files.write(self.folder / "job.json", specification)
        self.journal.begin()  # another file: a process of that run may still write into the one that is there
        self._change_key()
        for entry in earlier:
            fields = {name: value for name, value in entry.items() if name not in ("entry", "signature")}
            self.journal.write(entry["entry"], every=math.inf, **fields)
        remove_old()
        self.mark = Mark(self.request.build, self.request.job.id, specification)
        self._take_in()
        self.journal.take_place()
        self.mark.take_place()
        self.cases.in_flight = None  # the interrupted run's, which says nothing of the kernel: it is tried again

    def forget(self) -> None:
        """Remove the journal, so that no later run goes on with it."""
        self.journal.close()
        own_files.remove(self.journal.path)

    def _change_key(self) -> None:
        """Sign the journal with a key that only this process and the next one that compares get to know.

        A kernel could otherwise write into the journal that its case has passed.
        """
        self._take_in()  # what the former key has signed
        self.journal.take_key(secrets.token_hex(16))

    def _take_in(self) -> None:
        """Take in the new entries of the journal, and note that they are proven."""
        self.cases.take_in()
        if self.mark:
            self.mark.note(self.journal)

    def _run_process(self, remaining: Sequence[Case]) -> None:
        """Run what remains in one process, until it ends or has to be ended."""
        log_size = self.log.lstat().st_size if self.log.exists() else 0
        tries = self.cases.tries
        child = self._start(remaining)
        self.own_time = OwnTime(child)
        try:
            status = self._watch(child)
        except MachineError as error:
            self._take_in()
            if self.cases.in_flight is None:
                raise
            self.cases.lose_in_flight(str(error))
            return
        except BaseException:
            with contextlib.suppress(MachineError):
                child.kill()
            raise
        finally:
            self.share.ends_measuring()
        if status:
            self.room.demand()
        output = self._output(log_size)
        ending = death(status or 0, self.cases.stage, child.why)
        if status is not None:
            self.cases.end_in_flight("crash", ending, output)
        if status is not None and status < 0 and not child.why and not is_suite(self.request.matrix):
            self._end_what_remains(status)
        elif self.cases.tries == tries and time.monotonic() < self.deadline:
            self._explain_standstill(self.cases.remaining(remaining), status, ending, output, child.why)

    def _start(self, remaining: Sequence[Case]) -> Child:
        """Start a process on the cases, if the device is fit for work."""
        attempts = {case.id: self.cases.attempt_at(case.id) for case in remaining}
        todo = self.folder / "todo.json"
        specification = job_command.specification(self.request, self.actions, remaining, attempts)
        own_files.write(todo, specification)
        preflight.check(self.request, self.interpreter)
        self.cases.process_begins()
        own_files.remove(self.folder / quiet.ANSWER)
        self.journal.demand_in_place()
        self._change_key()
        command = job_command.arguments(self.request, self.interpreter, todo, self.journal.path)
        variables = job_command.environment(self.request, self.interpreter)
        handed = words(self.journal.key, specification)
        return self.interpreter.start(command, variables, self.request.root, self.log, handed)

    def _watch(self, child: Child) -> int | None:
        """Follow the journal until the process ends; return its exit status, or None if it had to be killed."""
        end = wait_until(lambda: self._look_at(child))
        return end if isinstance(end, int) else None

    def _look_at(self, child: Child) -> int | Literal["killed"] | None:
        """Return how the process has ended, after a limit has ended it if need be; None while it runs.

        Raises:
            StoppedError: the run is to stop; the process is ended.
        """
        status = child.poll()
        self._take_in()
        now = time.monotonic()
        if status is not None:
            if -status in _FROM_OUTSIDE and self.stop.wait(_TO_STOP):  # what ends the run has ended the process, too
                raise StoppedError
            return status
        if self.stop.is_set():
            child.kill()
            self._take_in()  # which case has begun by now
            raise StoppedError
        self._leave_out_waiting(now)
        late, full = now >= self.deadline, self.room.outgrown()
        if not late and not full and self.cases.seconds() <= self.limits.case:
            return None
        waited = self._waited()
        child.kill()
        self._take_in()
        if full:
            stage, reason = "crash", f"the job's folder has more than {self.room.most / (1 << 30):g} GiB"
        elif late:
            stage, reason = "timeout", f"{JOB_LIMIT} of {self.limits.job:g} s ended it in {self.cases.stage}{waited}"
        elif self.cases.in_flight:
            stage, reason = "timeout", f"no end after {self.limits.case:g} s, in stage {self.cases.stage}{waited}"
        else:
            stage, reason = "", f"the suite did not start its next case within {self.limits.case:g} s{waited}"
        if self.cases.in_flight is None and not late:
            self.cases.broken = self.cases.broken or {"message": reason, "detail": self._output(0)}
        self.cases.end_in_flight(stage, reason, self._output(0) if full else "")
        if full:
            self.room.clear()
        return _KILLED

    def _leave_out_waiting(self, now: float) -> None:
        """Let a process that waits for quiet measure, or one that has measured go on.

        No limit counts this waiting, nor that for a core which others use.
        """
        waited = self.own_time.lost() if self.own_time else 0.0
        if self.cases.asks:
            waited = now - self.looked
            if self.share.may_measure() if self.cases.asks == "quiet" else self.share.may_go_on():
                self.cases.asks = ""
                quiet.answer(self.folder)
        self.deadline += waited
        self.cases.waited += waited
        self.looked = now

    def _waited(self) -> str:
        """Return the words for the time of the case that no limit counts; none if it is short."""
        waited = self.cases.waited
        return f"; it waited {waited:.0f} s more, which do not count ({load()})" if waited >= 1 else ""

    def _end_what_remains(self, status: int) -> None:
        """End all cases that have not ended: a signal has ended the process that compares.

        A kernel that sends one could have left a process behind, which waits for the next one that compares.
        """
        cases = [case for case in self.request.job.cases if case.id in self.actions]
        message = f"the process that compares died of {signal.Signals(-status).name}, and no other one was started"
        self.cases.give_up(cases, "error", "crash", message)

    def _explain_standstill(
        self, remaining: Sequence[Case], status: int | None, ending: str, output: str, why: str
    ) -> None:
        """End what remains after a process that brought no case to its end: another one would not either."""
        if broken := self.cases.broken:
            self.cases.give_up(remaining, "error", "import", broken["message"], broken["detail"])
        elif status in _NO_TESTS_RAN and not is_suite(self.request.matrix):
            self.cases.give_up(remaining, "missing", "", self._no_test_for(remaining))
        else:
            lines = [line for line in output.splitlines() if line.strip()]
            message = lines[-1] if lines and not why else ending
            if is_suite(self.request.matrix) and message != ending:  # what was printed last need not be why it ended
                message = f"{ending}: {message}"
            self.cases.give_up(remaining, "error", "import", message, output)

    def _no_test_for(self, cases: Sequence[Case]) -> str:
        """Return that the suite has no test for the operators of these cases, and what a test for them looks like."""
        marks = sorted({f"op({case.cell.op!r}, {case.cell.direction!r})" for case in cases})
        suite = self.request.matrix.package.suite
        return (
            f"the suite has no test marked {', '.join(marks)}: write @pytest.mark.{marks[0]} above a test in {suite}, "
            "and give it the argument 'case', which says what to run and compares the result"
        )

    def _machine_failed(self, cases: Sequence[Case], message: str) -> None:
        """End all cases that have not ended as errors of the machine."""
        self.cases.lose_in_flight(message)
        self.cases.give_up(cases, "error", "machine", message)

    def _output(self, start: int) -> str:
        """Return the last lines of what was printed after the first ``start`` bytes of the log."""
        try:
            file = own_files.opened(self.log, os.O_RDONLY)
        except FileNotFoundError:
            return ""
        try:
            return own_files.last_lines(file, start)
        finally:
            os.close(file)


def death(status: int, stage: str, why: str = "") -> str:
    """Return how a process ended, in words: its exit status (negative: its signal), and why if that is known."""
    return f"the process {ending_of(status)} in stage {stage}{f': {why}' if why else ''}"


def ending_of(status: int) -> str:
    """Return how a process ended, given its exit status or, negative, its signal."""
    return f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
