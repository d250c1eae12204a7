"""What became of each row's job, as the engine tells; and the reason of every planned case that has no result."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kernel_matrix.base.errors import UserError
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row
from kernel_matrix.results.history import History, lane_id
from kernel_matrix.results.record import Outcome, Record

Status = Literal["absent", "queued", "running", "completed"]
_WAITING = ("queued", "waiting", "pending", "requested")
_SECONDS_BETWEEN_LOOKS = 30.0
_MOST_SECONDS = 5.5 * 3600  # the engine ends the report's own job after six hours


class JobStatus(BaseModel):
    """What the engine knows of a row's job."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    row: str
    status: Status
    conclusion: str = Field(default="", max_length=40)
    since: str = Field(default="", max_length=40)
    machine: str = Field(default="", max_length=200)
    url: str = Field(default="", max_length=500)


_LIST = TypeAdapter(list[JobStatus])


def read(path: Path) -> dict[str, JobStatus]:
    """The statuses by row.

    Raises:
        UserError: it is no such file.
    """
    try:
        return {status.row: status for status in _LIST.validate_json(path.read_bytes())}
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. Make it with: kernel-matrix jobs") from None
    except ValidationError as error:
        raise UserError(f"{path}: {error.errors()[0]['msg']}. Make it anew with: kernel-matrix jobs") from None


def to_json(statuses: Iterable[JobStatus]) -> str:
    """The file's text."""
    return json.dumps([status.model_dump() for status in statuses], indent=1) + "\n"


def ask_github(repository: str, run: str, attempt: str) -> list[dict[str, Any]]:
    """The jobs of this attempt of a run, by gh, which brings the token and the pages.

    Raises:
        UserError: gh is not here or was refused.
    """
    path = f"repos/{repository}/actions/runs/{run}/attempts/{attempt}/jobs?per_page=100"
    command = ["gh", "api", "--paginate", "--jq", ".jobs[] | @json", path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError("gh is not installed. It comes with GitHub's machines: https://cli.github.com") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no answer").splitlines()[-1]
        raise UserError(f"gh api {path}: {said}. The job needs 'actions: read' and GH_TOKEN.")
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


def statuses(spread: RowPlan, jobs: Iterable[Mapping[str, Any]]) -> list[JobStatus]:
    """The status of each row; a job of a called workflow is named ``caller / row``."""
    found = {str(job["name"]).rpartition(" / ")[2]: job for job in jobs}
    return [_status(row, found.get(row.id)) for row in spread.rows if row.labels]


def _status(row: Row, job: Mapping[str, Any] | None) -> JobStatus:
    if job is None:
        return JobStatus(row=row.id, status="absent")
    status: Status = "completed" if job["status"] == "completed" else "running"
    if job["status"] in _WAITING:
        status = "queued"
    return JobStatus(
        row=row.id,
        status=status,
        conclusion=job.get("conclusion") or "",
        since=job.get("completed_at") or job.get("started_at") or job.get("created_at") or "",
        machine=job.get("runner_name") or "",
        url=job.get("html_url") or "",
    )


def wait(
    look: Callable[[], list[JobStatus]],
    queue_seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[JobStatus]:
    """Look again and again until every job has ended, or none has run and nothing has moved for ``queue_seconds``.

    A machine that works its way through several rows is no reason to give the later ones up.
    """
    began = moved = clock()
    before: list[JobStatus] = []
    while True:
        seen = look()
        if seen != before:
            before, moved = seen, clock()
        settled = all(status.status == "completed" for status in seen)
        runs = any(status.status == "running" for status in seen)
        idle = not runs and clock() - moved >= queue_seconds
        if settled or idle or clock() - began >= _MOST_SECONDS:
            return seen
        sleep(min(_SECONDS_BETWEEN_LOOKS, queue_seconds / 2))


def only_compiled(spread: RowPlan, records: Iterable[Record]) -> list[Record]:
    """The records with those of a machine of its own that was to run a case, and compiled it, made missing.

    Its label promises the hardware. Drawn as compiled, a GPU that is gone would look like a machine without one.
    """
    rows = spread.row_of()
    told = []
    for record in records:
        row = rows.get(record.case)
        if row and row.own and record.action == "compile":
            why = f"the machine was to run it, and only compiled it: no device for its label {row.labels[-1]} there"
            told.append(Record(record.case, "missing", message=why, job=record.job))
        else:
            told.append(record)
    return told


def absences(
    spread: RowPlan,
    records: Iterable[Record],
    known: Mapping[str, JobStatus],
    history: History,
    refused: Mapping[str, str],
    queue_minutes: float,
) -> list[Record]:
    """A record for every planned case that has none: whether it is missing or had no machine, why, and since when.

    ``refused`` says of a job whose results were refused why. A machine that could not be had makes its cells
    unavailable; a job that was taken and lost makes them missing, which is red.
    """
    have = {record.case for record in records}
    absent = []
    for row in spread.rows:
        outcome, reason = _reason(row, known.get(row.id), queue_minutes)
        for job in row.jobs:
            text = f"its result was refused: {refused[job.id]}" if job.id in refused else reason
            for case in job.cases:
                if case.id not in have:
                    state: Outcome = "missing" if job.id in refused else outcome
                    absent.append(Record(case.id, state, message=f"{text}. {_since(history, case.id)}"))
    return absent


def _reason(row: Row, status: JobStatus | None, queue_minutes: float) -> tuple[Outcome, str]:
    if not row.labels:
        return "unavailable", "no machine of this run has this hardware, and the toolchain compiles nothing without it"
    labels = ", ".join(row.labels)
    if status is None:
        return "missing", "no result came, and nothing is known of its job"
    where = f" on {status.machine}" if status.machine else ""
    match status.status, status.conclusion:
        case "absent", _:
            return "missing", f"the engine never made the job '{row.id}'"
        case "queued", _:
            waited = f"within {queue_minutes:g} minutes"
            return "unavailable", f"the job never started: no machine with the labels {labels} took it {waited}"
        case "running", _:
            return "missing", f"the job was still running{where} when the report was made"
        case _, "cancelled" if not status.machine:
            return "unavailable", f"the job never started: cancelled before a machine with the labels {labels} took it"
        case _, "cancelled":
            return "missing", f"the job was cancelled{where}"
        case _, "timed_out":
            return "missing", f"the job was ended by its time limit{where}"
        case _, "skipped":
            return "missing", "the engine skipped the job"
    return "missing", f"the job ended as '{status.conclusion}'{where} and left no result"


def _since(history: History, case: str) -> str:
    lane = history.lanes.get(lane_id(case))
    if lane is None or (lane.last_result is None and lane.silent_since is None):
        return "No earlier run of this lane is on record."
    if lane.last_result is None:
        return f"This lane has had no result since it was first planned, {_day(lane.silent_since)}."
    since = f", silent since {_day(lane.silent_since)}" if lane.silent_since else ""
    return f"Last result of this lane: {_day(lane.last_result)}{since}."


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else "an unknown day"
