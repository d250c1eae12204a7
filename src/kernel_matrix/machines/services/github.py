"""GitHub Actions: the rows for ``fromJSON``, and the status of the jobs of a workflow run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.job_status import JobStatus, Status
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row
from kernel_matrix.machines.services import minutes, started

TITLE = "GitHub Actions"
_WAITS = (2, 5, 15, 30, 60, 60, 60)  # seconds between requests that fail for a reason of the moment
_REFUSED = re.compile(r"HTTP 4(?!08|29)\d\d|GH_TOKEN|gh auth login")  # asking again does not help
_WAITING = ("queued", "waiting", "pending", "requested")
_RUN = ("GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")


def render(matrix: Matrix, row_plan: RowPlan) -> str:
    """Return one line of JSON: the rows on hosted machines, and the rows on machines of one's own."""
    kinds: dict[str, list[dict[str, Any]]] = {"hosted": [], "own": []}
    for row in started(row_plan):
        kinds["own" if row.own else "hosted"].append(
            {"id": row.id, "platform": row.platform, "labels": list(row.labels), "minutes": minutes(matrix, row)}
        )
    return json.dumps(kinds, separators=(",", ":")) + "\n"


def this_run() -> tuple[str, str, str]:
    """Return repository, run and attempt of the workflow run that this process belongs to.

    Raises:
        UserError: this is not a workflow run.
    """
    repository, run, attempt = (os.environ.get(name, "") for name in _RUN)
    if not (repository and run and attempt):
        raise UserError(f"{', '.join(_RUN[:2])} and {_RUN[2]} are not set: this runs in a workflow.")
    return repository, run, attempt


def ask(
    repository: str, run: str, attempt: str, *, sleep: Callable[[float], None] = time.sleep
) -> list[dict[str, Any]]:
    """Return the jobs of an attempt of a run. ``gh`` asks, because it brings the token and reads all pages.

    A service that is out of order for a moment is asked again, after waits that grow to a minute.

    Raises:
        UserError: gh is not installed, GitHub refused the request, or it has not answered for some minutes.
    """
    path = f"repos/{repository}/actions/runs/{run}/attempts/{attempt}/jobs?per_page=100"
    command = ["gh", "api", "--paginate", "--jq", ".jobs[] | @json", path]
    for wait in (*_WAITS, None):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UserError("gh is not installed. It comes with GitHub's machines: https://cli.github.com") from None
        if not done.returncode:
            return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        reason = (done.stderr.strip() or done.stdout.strip() or "no answer").splitlines()[-1]
        if _REFUSED.search(reason):
            raise UserError(f"gh api {path}: {reason}. The job needs 'actions: read' and GH_TOKEN.")
        if wait is not None:
            sleep(wait)
    tries, total = len(_WAITS) + 1, sum(_WAITS) / 60
    raise UserError(f"gh api {path}: {reason}. It was asked {tries} times in {total:.0f} minutes.")


def statuses(row_plan: RowPlan, jobs: Iterable[Mapping[str, Any]]) -> list[JobStatus]:
    """Return the status of each started row. A job of a called workflow is named ``caller / row``."""
    by_row = {str(job["name"]).rpartition(" / ")[2]: job for job in jobs}
    return [_status(row, by_row.get(row.id)) for row in started(row_plan)]


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
