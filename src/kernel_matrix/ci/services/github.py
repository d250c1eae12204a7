"""GitHub Actions: the rows for ``fromJSON``, the status of a run's jobs, and the site of main's newest run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.preference import Busy
from kernel_matrix.ci.services import images, minutes, started
from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.job_status import JobStatus, Status
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row

_WAITS = (2, 5, 15, 30, 60, 60, 60)  # seconds between requests that fail for a reason of the moment
_REFUSED = re.compile(r"HTTP 4(?!08|29)\d\d|GH_TOKEN|gh auth login|no (valid )?artifact")  # asking again does not help
_WAITING = ("queued", "waiting", "pending", "requested")
# Only these runs have artifacts that no pull request has written.
_PUBLISHING = (("main.yml", "push"), ("nightly.yml", "schedule"))
_OWN_RUNS = '.workflow_runs[] | select(.head_repository.full_name == .repository.full_name) | "\\(.created_at) \\(.id)"'
_RUN = ("GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")


def render(matrix: Matrix, row_plan: RowPlan) -> str:
    """Return one line of JSON: the rows on hosted machines and on machines of one's own, and the images made once."""
    kinds: dict[str, list[dict[str, Any]]] = {"hosted": [], "own": []}
    kinds["images"] = [{"platform": name} for name in images(matrix, row_plan)]
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


class RefusedError(UserError):
    """GitHub answered, and does not give what it was asked for."""


def ask(
    repository: str, run: str, attempt: str, *, sleep: Callable[[float], None] = time.sleep
) -> list[dict[str, Any]]:
    """Return the jobs of an attempt of a run.

    Raises:
        UserError: gh is not installed, GitHub refused the request, or it has not answered for some minutes.
    """
    path = f"repos/{repository}/actions/runs/{run}/attempts/{attempt}/jobs?per_page=100"
    text = _gh("api", "--paginate", "--jq", ".jobs[] | @json", path, sleep=sleep)
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def busy(repository: str, *, sleep: Callable[[float], None] = time.sleep) -> list[Busy]:
    """Return the jobs that wait or run in the repository now: of at most 100 runs that go on.

    Raises:
        UserError: gh is not installed, GitHub refused a request, or it has not answered for some minutes.
    """
    found = []
    for state in ("in_progress", "queued"):
        path = f"repos/{repository}/actions/runs?status={state}&per_page=50"
        for run in _gh("api", path, "--jq", ".workflow_runs[].id", sleep=sleep).split():
            jobs = f"repos/{repository}/actions/runs/{run}/jobs?per_page=100"
            text = _gh("api", "--paginate", "--jq", ".jobs[] | @json", jobs, sleep=sleep)
            found += [json.loads(line) for line in text.splitlines() if line.strip()]
    return [
        Busy(labels=tuple(job.get("labels") or ()), machine=job.get("runner_name") or "")
        for job in found
        if job["status"] != "completed"
    ]


def fetch_site(
    repository: str, folder: Path, say: Callable[[str], object], *, sleep: Callable[[float], None] = time.sleep
) -> bool:
    """Fetch the site of the newest run of main or of the night into the folder; return whether there is one.

    A run whose artifact has expired has none, and the run before it is asked.

    Raises:
        UserError: gh is not installed, GitHub refused a request, or it has not answered for some minutes.
    """
    branch = _gh("api", f"repos/{repository}", "--jq", ".default_branch", sleep=sleep).strip()
    runs: list[list[str]] = []
    for workflow, event in _PUBLISHING:
        query = f"branch={branch}&event={event}&status=completed&per_page=5"
        path = f"repos/{repository}/actions/workflows/{workflow}/runs?{query}"
        runs += map(str.split, _gh("api", path, "--jq", _OWN_RUNS, sleep=sleep).splitlines())
    for created, run in sorted(runs, reverse=True):
        command = ("run", "download", run, "--repo", repository, "--name", "site", "--dir", str(folder))
        try:
            _gh(*command, sleep=sleep, into=folder)
        except RefusedError as refusal:
            say(f"run {run} of {created} has no site: {refusal}")
            continue
        say(f"run {run} of {created}")
        return True
    return False


def _gh(*words: str, sleep: Callable[[float], None], into: Path | None = None) -> str:
    """Return what ``gh`` prints: it brings the token and reads all pages. ``into`` is empty whenever it begins.

    A service that is out of order for a moment is asked again, after waits that grow to a minute.

    Raises:
        RefusedError: asking again does not help.
        UserError: gh is not installed, or GitHub has not answered for some minutes.
    """
    for wait in (*_WAITS, None):
        if into:
            shutil.rmtree(into, ignore_errors=True)
            into.mkdir(parents=True)
        try:
            done = subprocess.run(["gh", *words], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UserError("gh is not installed. It comes with GitHub's machines: https://cli.github.com") from None
        if not done.returncode:
            return done.stdout
        reason = (done.stderr.strip() or done.stdout.strip() or "no answer").splitlines()[-1]
        if _REFUSED.search(reason):
            raise RefusedError(f"gh {' '.join(words)}: {reason}. The job needs 'actions: read' and GH_TOKEN.")
        if wait is not None:
            sleep(wait)
    tries, total = len(_WAITS) + 1, sum(_WAITS) / 60
    raise UserError(f"gh {' '.join(words)}: {reason}. It was asked {tries} times in {total:.0f} minutes.")


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
        created=job.get("created_at") or "",
        started=job.get("started_at") or "",
        ended=job.get("completed_at") or "",
        machine=job.get("runner_name") or "",
        url=job.get("html_url") or "",
    )
