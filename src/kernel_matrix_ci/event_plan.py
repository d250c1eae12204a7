"""Plan -> RowPlan: the rows that an event asks for, each described in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.errors import unknown
from kernel_matrix.config.concern import lock_files
from kernel_matrix.config.model import Event, Matrix, Tier
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.machines.row_plan import RowPlan, choose
from kernel_matrix.machines.rows import Row, estimate
from kernel_matrix.pipeline import Project, plan
from kernel_matrix.results import history
from kernel_matrix_ci.placing import rows


def plan_rows(
    project: Project,
    *,
    event: str | None = None,
    tier: Tier | None = None,
    changed_since: str | None = None,
    hosted_only: bool = False,
    earlier: Path | None = None,
) -> RowPlan:
    """Return the rows that an event asks for; ``earlier`` is a folder of results, for the time that cases take.

    Raises:
        UserError: matrix.yaml has no such event, or git does not know the reference.
    """
    events = project.matrix.ci.events
    if event and event not in events:
        raise unknown("--event", "event in matrix.yaml's ci.events", event, events)
    planned = plan(project, tier or events.get(event or "", Event()).tier)
    paths = git.changed_files(project.root, changed_since) if changed_since else None
    measured = history.read(earlier).seconds
    return make_row_plan(project.matrix, planned, measured, event=event or "", paths=paths, hosted_only=hosted_only)


def make_row_plan(
    matrix: Matrix,
    planned: Plan,
    measured: Mapping[str, float],
    *,
    event: str = "",
    paths: Sequence[str] | None = None,
    hosted_only: bool = False,
) -> RowPlan:
    """Return the rows for what the event asks for and the changed files concern. A pure function.

    ``measured`` are seconds by case; ``paths`` are the changed files, None for all files.
    """
    asked = matrix.ci.events.get(event, Event())
    changed = set(paths or ())
    jobs = [
        job
        for job in planned.jobs
        if asked.toolchains is None
        or job.toolchain in asked.toolchains
        or changed & {*lock_files(matrix.lock_of(job.platform, job.toolchain))}
    ]
    reasons: Mapping[str, str] = {}
    if paths is not None:
        jobs, reasons = choose(matrix, jobs, paths)
    seconds = estimate(matrix, planned.cases, measured)
    placed = rows(matrix, jobs, seconds, hosted_only=hosted_only)
    left_out = len(planned.cases) - sum(len(job.cases) for job in jobs)
    return RowPlan(event, planned.tier, placed, asked.excluded, left_out, reasons)


def describe(row_plan: RowPlan, row: Row) -> str:
    """Return a row as one line for people: its cases, its duration, its machine, and why it is in the plan."""
    cases = sum(len(job.cases) for job in row.jobs)
    reasons = dict.fromkeys(reason for job in row.jobs if (reason := _reason(row_plan, job)))
    where = ", ".join(row.labels) or "no machine"
    why = f" ({'; '.join(reasons)})" if reasons else ""
    return f"{row.id}: {cases} cases, {row.seconds:.0f} s, on [{where}]{why}"


def _reason(row_plan: RowPlan, job: Job) -> str:
    """Return why a job is in the plan. A reason has the job's id from before the job was placed and cut."""
    keys = (key for key in row_plan.reasons if job.id == key or job.id.startswith(f"{key}."))
    return row_plan.reasons.get(next(keys, ""), "")
