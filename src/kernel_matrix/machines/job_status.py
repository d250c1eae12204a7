"""The status of each row's job: a file of them, and waiting until all jobs have ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter, ValidationError

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.models import Strict

Status = Literal["absent", "queued", "running", "completed"]
_SECONDS_BETWEEN_LOOKS = 30.0
_REMEDY = "`kernel-matrix ci jobs --plan FILE --write FILE`"
_MOST_SECONDS = 5.5 * 3600  # the CI service ends the report's own job after six hours


class JobStatus(Strict):
    """The status of a row's job, as the CI service reports it."""

    row: str
    status: Status
    conclusion: str = Field(default="", max_length=40)
    created: str = Field(default="", max_length=40)
    started: str = Field(default="", max_length=40)
    ended: str = Field(default="", max_length=40)
    machine: str = Field(default="", max_length=200)
    url: str = Field(default="", max_length=500)
    why: str = Field(default="", max_length=300)  # of one that waits, or was ended: the reason, in the engine's words


_LIST = TypeAdapter(list[JobStatus])


def read(path: Path) -> dict[str, JobStatus]:
    """Read a file of statuses and return them by row.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    try:
        return {status.row: status for status in _LIST.validate_json(path.read_bytes())}
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. Make it with: {_REMEDY}") from None
    except ValidationError as error:
        raise UserError(f"{path}: {error.errors()[0]['msg']}. Make it anew with: {_REMEDY}") from None


def to_json(statuses: Iterable[JobStatus]) -> str:
    """Return the text of the file."""
    return json.dumps([status.model_dump() for status in statuses], indent=1) + "\n"


def wait(
    look: Callable[[], list[JobStatus]],
    queue_seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[JobStatus]:
    """Look until every job has ended, or until no job runs and nothing has changed for ``queue_seconds``.

    While a job runs, the wait goes on: one machine may work on several rows, one after another. If the service no
    longer answers, the statuses that it gave last are returned: a report of what is known is better than none.

    Raises:
        UserError: the service has never answered.
    """
    began = last_change = clock()
    before: list[JobStatus] = []
    while True:
        try:
            statuses = look()
        except UserError:
            if before:
                return before
            raise
        if statuses != before:
            before, last_change = statuses, clock()
        settled = all(status.status == "completed" for status in statuses)
        running = any(status.status == "running" for status in statuses)
        idle = not running and clock() - last_change >= queue_seconds
        if settled or idle or clock() - began >= _MOST_SECONDS:
            return statuses
        sleep(min(_SECONDS_BETWEEN_LOOKS, queue_seconds / 2))
