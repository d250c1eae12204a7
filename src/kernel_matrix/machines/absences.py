"""Records for planned cases without a result: the reason, and since when the lane has been silent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row
from kernel_matrix.results.history import History, lane_id
from kernel_matrix.store.record import Outcome, Record

# How the job of a row has ended, by the conclusion of its status.
_ENDED = {
    "cancelled": "the job was cancelled",
    "timed_out": "the job was ended by its time limit",
    "skipped": "the CI service skipped the job",
    "node_fail": "the machine failed, and took the job with it,",
    "lost": "the job lost its machine, and no other one took it",
    "out_of_memory": "the job was ended by its memory limit (ci.slurm.memory)",
    "preempted": "another job took the machine from the job",
}


def with_absences(
    row_plan: RowPlan,
    records: Sequence[Record],
    statuses: Mapping[str, JobStatus],
    history: History,
    refused: Mapping[str, str],
    queue_minutes: float,
) -> list[Record]:
    """Return the records as :func:`with_broken_promises` does, and then the records of :func:`absences`."""
    absent = absences(row_plan, records, statuses, history, refused, queue_minutes)
    return [*with_broken_promises(row_plan, records), *absent]


def with_broken_promises(row_plan: RowPlan, records: Iterable[Record]) -> list[Record]:
    """Return the records. A case that one of our own machines was to run, and did not run, becomes missing.

    The label of such a machine promises the hardware. Otherwise a broken GPU would look like a machine without one:
    its cases would be compiled, or unavailable where the toolchain compiles nothing without a device.
    """
    rows = row_plan.row_of()
    checked = []
    for record in records:
        row = rows.get(record.case)
        done = _done_without_device(record)
        if row and row.own and done:
            why = f"the machine was to run it, and {done}: no device for its label {row.labels[-1]} there"
            checked.append(Record(record.case, "missing", message=why, job=record.job))
        else:
            checked.append(record)
    return checked


def _done_without_device(record: Record) -> str:
    """Return what a machine did with a case for which it has no device; empty if it tried the case on a device."""
    if record.action == "compile":
        return "only compiled it"
    return "did not try it" if record.outcome == "unavailable" and not record.action else ""


def absences(
    row_plan: RowPlan,
    records: Iterable[Record],
    statuses: Mapping[str, JobStatus],
    history: History,
    refused: Mapping[str, str],
    queue_minutes: float,
) -> list[Record]:
    """Return a record for every planned case that has none, with its outcome, the reason, and since when.

    ``statuses`` are by row; ``refused`` says by job why its results were refused. When no machine took the job, its
    cases are unavailable. When a machine took the job and no result came, its cases are missing, which is red.
    """
    present = {record.case for record in records}
    absent = []
    for row in row_plan.rows:
        row_outcome, row_reason = _reason(row, statuses.get(row.id), queue_minutes)
        for job in row.jobs:
            refusal = refused.get(job.id)
            outcome: Outcome = "missing" if refusal else row_outcome
            reason = f"its result was refused: {refusal}" if refusal else row_reason
            for case in job.cases:
                if case.id not in present:
                    absent.append(Record(case.id, outcome, message=f"{reason}. {_since(history, case.id)}"))
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
            return "missing", f"the CI service never made the job '{row.id}'"
        case "queued", _:
            waited = f"within {queue_minutes:g} minutes"
            return "unavailable", f"the job never started: no machine with the labels {labels} took it {waited}"
        case "running", _:
            return "missing", f"the job was still running{where} when the report was made"
        case _, "cancelled" if not status.machine:
            return "unavailable", f"the job never started: cancelled before a machine with the labels {labels} took it"
        case _, "never_started":
            why = f": {status.why}" if status.why else " within ci.slurm.queue_minutes"
            return "unavailable", f"the job never started: no node took it{why}"
        case _, ended if ended in _ENDED:
            return "missing", f"{_ENDED[ended]}{where}"
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
