"""Follow the jobs of a run: say what changes, end rows that would never start, and show the words of the report."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from kernel_matrix.base.words import some
from kernel_matrix.ci.engines import REPORT, AwayError, Engine, state
from kernel_matrix.ci.engines.state import ClusterRun
from kernel_matrix.job import own_files
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.pipeline import Project

_FIRST, _LONGEST, _SLOWER = 1.0, 30.0, 1.2  # seconds between two looks: the first, the most, and how they grow
_SETTLED = ("completed", "absent")
_NOT_SEEN = 3  # looks after which a report that no look has shown is made here
_LINES = 5  # of the log of a row that failed


def goes_on(statuses: Iterable[JobStatus]) -> bool:
    """Return whether a job waits or runs."""
    return any(status.status not in _SETTLED for status in statuses)


class Follower:
    """Follow one run until its report has ended."""

    def __init__(self, engine: Engine, project: Project, run: ClusterRun, say: Callable[[str], object]) -> None:
        """``say`` prints a line."""
        self.print = say
        self.engine, self.project, self.run = engine, project, run
        self.before: dict[str, JobStatus] = {}
        self.said: tuple[str, ...] = ()
        self.away = ""
        self.rows_ended = 0.0  # when it was seen that all rows have ended

    def follow(self) -> int:
        """Return the exit status of the report."""
        pause, looks = _FIRST, 0
        while True:
            statuses = self._look()
            looks += 1
            if statuses is not None:
                if self._show(statuses):
                    pause = _FIRST
                report, rows = _apart(statuses)
                if report.status == "completed" or (report.status == "absent" and looks > _NOT_SEEN):
                    if state.status_of_report(self.run).exists() or not goes_on(rows):
                        return self._end(report, rows)
                elif report.status == "queued" and not goes_on(rows) and self._waits_in_vain(report):
                    return self._make_report()
            time.sleep(pause)
            pause = min(_LONGEST, pause * _SLOWER)

    def _look(self) -> list[JobStatus] | None:
        """Return the statuses; None while the cluster does not answer."""
        try:
            statuses = self.engine.poll(self.run)
            if self.run.is_mine:  # who follows another user's jobs can do nothing for them
                self.engine.attend(self.run, statuses)
                self._end_what_waits_in_vain(statuses)
        except AwayError as error:
            if not self.away:
                self._say(f"the cluster does not answer, and its jobs may go on: {error}")
            self.away = str(error)
            return None
        if self.away:
            self._say("the cluster answers again")
            self.away = ""
        return statuses

    def _end_what_waits_in_vain(self, statuses: Sequence[JobStatus]) -> None:
        """Cancel the rows that would wait for ever, or have waited too long. The report says why they never ran."""
        new: dict[str, str] = {}
        for one in statuses:
            if one.status == "queued" and one.row not in {REPORT, *self.run.ended}:
                if self.engine.never_starts(one.why):
                    new[one.row] = f"it would wait for ever: {one.why}"
                elif _waited(one) > 60 * self.run.queue_minutes:
                    new[one.row] = (
                        f"it has waited {self.run.queue_minutes:g} minutes: {one.why or 'no reason is known'}"
                    )
        if not new:
            return
        self.run = self.run.model_copy(update={"ended": {**self.run.ended, **new}})
        state.write(self.project.build, self.run)  # first: the report's job begins when the rows are gone
        self.engine.cancel(self.run, list(new))
        for why, rows in _by_reason(new).items():
            self._say(f"{some(rows)}: {why}; ended")

    def _show(self, statuses: Sequence[JobStatus]) -> bool:
        """Say what has changed since the last look; return whether something has."""
        rows = [status for status in map(self._with_start, statuses) if status.row != REPORT]
        for status in rows:
            before = self.before.get(status.row)
            lost = before is not None and _has_lost_its_node(before, status)
            if before and lost:
                again = f"waits again ({status.why or 'requeued'})" if status.status == "queued" else "began again"
                self._say(f"{status.row}: lost {before.machine}, and {again}")
            if status.status == "running" and (lost or before is None or before.status != "running"):
                self._say(f"{status.row}: runs on {status.machine}; log: {self._log(status.row)}")
            if status.status == "completed" and (before is None or before.status != "completed"):
                self._say_end(status)
        self.before = {status.row: status for status in rows}
        said = tuple(_sums(rows))
        changed, self.said = said != self.said, said
        for line in said if changed else ():
            self._say(line)
        return changed

    def _with_start(self, status: JobStatus) -> JobStatus:
        """Return a status with the start that was seen before, while that of one that runs is not known."""
        before = self.before.get(status.row)
        if before is None or before.status != "running" or status.status != "running" or status.started:
            return status
        return status.model_copy(update={"started": before.started})

    def _say_end(self, status: JobStatus) -> None:
        """Say how a row has ended; of one that was not right, the end of its log."""
        where = f" on {status.machine}" if status.machine else ""
        words = {"success": "done", "failure": "red, or it failed"}.get(status.conclusion, status.conclusion)
        self._say(f"{status.row}: {words.replace('_', ' ')}{where}")
        if status.conclusion not in ("success", "never_started") and status.machine:
            for line in _last_lines(self._log(status.row)):
                self._say(f"    {line}")

    def _waits_in_vain(self, report: JobStatus) -> bool:
        """Cancel a report that no node takes: it would wait for ever, or has waited too long since its rows ended."""
        self.rows_ended = self.rows_ended or time.monotonic()
        in_vain = time.monotonic() - self.rows_ended > 60 * self.run.queue_minutes
        if self.run.is_mine and not self.run.disk and (in_vain or self.engine.never_starts(report.why)):
            self._say(f"no node makes the report ({report.why or 'no reason is known'}): it is made here")
            self.engine.cancel(self.run, [REPORT])
            return True
        return False

    def _end(self, report: JobStatus, rows: Sequence[JobStatus]) -> int:
        """Print what the report has printed, and return its status. One that its job did not make is made here."""
        try:
            status = int(state.status_of_report(self.run).read_text())
            said = self._log(REPORT).read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            if {one.conclusion for one in (report, *rows)} == {"cancelled"}:
                self._say("all jobs were cancelled, and there is no report")
                return 130
            if not self.run.disk:  # else it has no job
                self._say(f"the report's job has left none ({report.conclusion or report.status}): it is made here")
            return self._make_report()
        self.print(said.rstrip("\n"))
        return status

    def _make_report(self) -> int:
        for line in self.run.report_commands:
            status = subprocess.run(["bash", "-c", line], cwd=self.run.root, check=False).returncode
        return status

    def _log(self, row: str) -> Path:
        return self.engine.log(self.run, row)

    def _say(self, text: str) -> None:
        self.print(f"{datetime.now():%H:%M:%S} {text}")


def _apart(statuses: Sequence[JobStatus]) -> tuple[JobStatus, list[JobStatus]]:
    """Return the status of the report, and those of the rows."""
    [report] = [status for status in statuses if status.row == REPORT]
    return report, [status for status in statuses if status.row != REPORT]


def _has_lost_its_node(before: JobStatus, now: JobStatus) -> bool:
    """Return whether a row that ran waits again, or has begun again since."""
    began_again = bool(now.started) and now.started != before.started
    return before.status == "running" and (now.status == "queued" or began_again)


def _sums(rows: Sequence[JobStatus]) -> list[str]:
    """Return how many rows wait, run and have ended, and for each reason how many wait and since when."""
    counts = Counter("ended" if row.status in _SETTLED else row.status for row in rows)
    lines = [f"{_rows(len(rows))}: {counts['queued']} wait, {counts['running']} run, {counts['ended']} have ended"]
    waiting = [row for row in rows if row.status == "queued"]
    for why, names in _by_reason({row.row: row.why for row in waiting}).items():
        since = min((row.created for row in waiting if row.row in names), default="")
        at = f" since {datetime.fromisoformat(since).astimezone():%d %b %H:%M}" if since else ""
        lines.append(f"    {len(names)} wait{at}: {why or 'nobody has looked at them yet'}: {some(names)}")
    return lines


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def _waited(status: JobStatus) -> float:
    """Return the seconds that a row has waited by now; none of one that does not wait."""
    if status.status != "queued" or not status.created:
        return 0.0
    return time.time() - datetime.fromisoformat(status.created).timestamp()


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for row, why in reasons.items():
        rows.setdefault(why, []).append(row)
    return rows


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            text = own_files.last_lines(file.fileno())
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-_LINES:]
