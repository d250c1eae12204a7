"""The status of a run's jobs -> how long rows waited for a machine, and what they took in addition to their cases.

The report writes it next to the page, so that the next plan finds it in its history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from statistics import median

from pydantic import Field, TypeAdapter, ValidationError

from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.models import Lenient
from kernel_matrix.base.words import counted
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.results import history

FILE = "machines.json"
_NOTHING: tuple[str, ...] = ()


class RowTime(Lenient):
    """The seconds of one row: in the queue, on its machine, and for its cases; None where nobody knows."""

    row: str = Field(max_length=200)
    platform: str = Field(max_length=200)
    labels: tuple[str, ...]
    machine: str = Field(default="", max_length=200)
    queued: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    ran: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cases: float | None = Field(default=None, ge=0, allow_inf_nan=False)


_LIST = TypeAdapter(tuple[RowTime, ...])


def read(folder: Path | None) -> tuple[RowTime, ...]:
    """Return the times that a site of an earlier run has; none where it has no such file, or one of another form."""
    path = folder / FILE if folder else None
    if path is None or not path.is_file():
        return ()
    try:
        return _LIST.validate_json(path.read_bytes())
    except ValidationError:
        return ()


def write(site: Path, row_plan: RowPlan, statuses: Mapping[str, JobStatus]) -> None:
    """Write the times of a run next to its page. The page's history has the seconds of the cases."""
    file = site / history.FILE
    seconds = history.from_json(file.read_bytes()).seconds if file.is_file() else {}
    write_atomically(site / FILE, _LIST.dump_json(of_run(row_plan, statuses, seconds), indent=1).decode() + "\n")


def of_run(
    row_plan: RowPlan, statuses: Mapping[str, JobStatus], seconds: Mapping[str, float] | None = None
) -> tuple[RowTime, ...]:
    """Return the times of the rows that a machine was asked for; ``seconds`` are the times of the cases, by id."""
    times = []
    for row in row_plan.rows:
        if status := statuses.get(row.id):
            known = [(seconds or {}).get(case.id) for job in row.jobs for case in job.cases if not case.exclusion]
            times.append(
                RowTime(
                    row=row.id,
                    platform=row.platform,
                    labels=row.labels,
                    machine=status.machine,
                    queued=_between(status.created, status.started) if status.machine else None,
                    ran=_between(status.started, status.ended) if status.machine else None,
                    cases=sum(value for value in known if value is not None) if known and None not in known else None,
                )
            )
    return tuple(times)


def _between(start: str, end: str) -> float | None:
    """Return the seconds between two times of a CI service; None where one is not said."""
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except (ValueError, TypeError):  # the last where only one names its zone
        return None


def setup(times: Iterable[RowTime]) -> dict[str, float]:
    """Return by platform the seconds that a row takes for checkout, image and environments (the median)."""
    known: dict[str, list[float]] = defaultdict(list)
    for time in times:
        if time.ran is not None and time.cases is not None:
            known[time.platform].append(max(0.0, time.ran - time.cases))
    return {platform: median(values) for platform, values in known.items()}


def notes(row_plan: RowPlan, statuses: Mapping[str, JobStatus]) -> tuple[str, ...]:
    """Return the sentences about a run for its page: what was left out on purpose, and how long rows waited."""
    waited = queue_words(of_run(row_plan, statuses))
    return (*row_plan.notes, *([f"Waiting for a machine: {waited}."] if waited else _NOTHING))


def queue_words(times: Iterable[RowTime]) -> str:
    """Return how long rows waited in the queue, by the labels of the machine; empty where nobody knows."""
    known: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for time in times:
        if time.queued is not None:
            known[time.labels].append(time.queued / 60)
    return "; ".join(
        f"[{', '.join(labels)}] {median(minutes):.1f} minutes (the median of {counted(len(minutes), 'row')}; at most "
        f"{max(minutes):.1f})"
        for labels, minutes in sorted(known.items(), key=lambda item: -max(item[1]))
    )
