"""Plan -> RowPlan: the rows that an event asks for, each described in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.words import counted
from kernel_matrix.ci import preference
from kernel_matrix.ci.budget import Budget, within
from kernel_matrix.ci.placing import Machines, of_service, place, rows
from kernel_matrix.ci.target import asked_for, only
from kernel_matrix.config.locks import names_of
from kernel_matrix.config.model import Event, Matrix, Tier
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.config.selection import Selection, narrow
from kernel_matrix.machines import row_times
from kernel_matrix.machines.row_plan import RowPlan, choose
from kernel_matrix.machines.rows import Row, Seconds, estimate
from kernel_matrix.pipeline import Project, plan, without_tests
from kernel_matrix.report.runs import is_site, read_site
from kernel_matrix.results import history

_RED = ("fail", "error", "fixed", "flaky")


def plan_rows(
    project: Project,
    *,
    event: str | None = None,
    tier: Tier | None = None,
    changed_since: str | None = None,
    hosted_only: bool = False,
    earlier: Path | None = None,
    labels: str = "[]",
    machines: Machines | None = None,
    selection: Selection | None = None,
) -> EventPlan:
    """Return the rows that an event asks for; ``earlier`` is a folder of results, for the time that cases take.

    ``labels`` are the labels of a pull request; one of them may ask for a target. ``machines`` are those of an engine,
    by default of a CI service. ``selection`` takes a part of the event's cases.

    Raises:
        UserError: matrix.yaml has no such event or target, or git does not know the reference.
    """
    project = without_tests(project)
    matrix, events = project.matrix, project.matrix.ci.events
    if event and not events:
        raise UserError(f"--event {event}: matrix.yaml has no ci.events, which says what each event tests. Write it, "
                        "or leave --event out: then all of the quick tier is planned.")  # fmt: skip
    if event and event not in events:
        raise unknown("--event", "event in matrix.yaml's ci.events", event, events)
    asked = asked_for(matrix, labels)
    planned = plan(project, tier or events.get(event or "", Event()).tier)
    paths = git.changed_files(project.root, changed_since) if changed_since else None
    times, past = row_times.read(earlier), history.read(earlier)
    kinds, sentences = ({}, []) if machines else preference.choose(matrix, preference.read(earlier), times)
    known = Known(past.seconds, _red(earlier), row_times.setup(times))
    machines = machines or of_service(matrix, kinds, hosted_only=hosted_only)
    options = {"event": event or "", "only_target": asked}
    made = make_row_plan(matrix, planned, known, paths=paths, machines=machines, selection=selection, **options)
    waited = row_times.queue_words(times)
    sentences += [f"in the last report rows waited: {waited}"] if waited else []
    return EventPlan(made, known, estimate(matrix, planned.cases, known.seconds), tuple(sentences))


@dataclass(frozen=True)
class Known:
    """Knowledge of earlier runs: the seconds of cases, which cells were red, and the seconds of a row without its
    cases.
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    red: frozenset[str] = frozenset()
    setup: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EventPlan:
    """The rows of an event, what was known for them, the seconds of a case, and sentences about their machines."""

    rows: RowPlan
    known: Known
    seconds: Seconds
    sentences: tuple[str, ...] = ()


def _red(earlier: Path | None) -> frozenset[str]:
    """Return the cells that were red in the report of an earlier run, if the folder has one."""
    if earlier is None or not is_site(earlier):
        return frozenset()
    return frozenset(cell.id for cell in read_site(earlier).outline.cells if cell.state in _RED)


def make_row_plan(
    matrix: Matrix,
    planned: Plan,
    known: Known | None = None,
    *,
    event: str = "",
    paths: Sequence[str] | None = None,
    machines: Machines | None = None,
    only_target: str = "",
    selection: Selection | None = None,
) -> RowPlan:
    """Return the rows for what the event asks for and the changed files concern. A pure function.

    ``paths`` are the changed files, None for all files. ``only_target`` are the words that a person asks for: all that
    has them is planned then, whatever was changed. ``selection`` takes a part of what is left.
    """
    machines = machines or of_service(matrix)
    asked, known = matrix.ci.events.get(event, Event()), known or Known()
    reasons: Mapping[str, str] = {}
    notes = []
    seconds = estimate(matrix, planned.cases, known.seconds)
    if only_target:
        jobs = only(planned.jobs, only_target)
        notes.append(f"Only {only_target} was asked for, by a label. Nothing is known here of the other cases.")
    else:
        jobs = _of_event(matrix, planned, asked, paths)
        if paths is not None:
            jobs, reasons = choose(matrix, jobs, paths)
    if selection:
        jobs = narrow(matrix, planned, jobs, selection)
    if asked.minutes and not only_target:
        idle = _idle(matrix, jobs, machines)
        spend = Budget(event, asked.minutes, seconds, paths or (), known.red, known.setup, idle)
        jobs, left = within(matrix, jobs, spend)
        notes += [left] if left else []
    placed = rows(matrix, jobs, seconds, machines)
    left_out = len(planned.cases) - sum(len(job.cases) for job in jobs)
    return RowPlan(event, planned.tier, placed, asked.excluded, left_out, reasons, tuple(notes))


def _of_event(matrix: Matrix, planned: Plan, asked: Event, paths: Sequence[str] | None) -> list[Job]:
    """Return the jobs of the toolchains that an event names, and of those whose lock was changed."""
    changed = set(paths or ())
    return [
        job
        for job in planned.jobs
        if asked.toolchains is None
        or job.toolchain in asked.toolchains
        or changed & {*names_of(matrix.lock_of(job.platform, job.toolchain))}
    ]


def _idle(matrix: Matrix, jobs: Sequence[Job], machines: Machines) -> set[str]:
    """Return the ids of the cases that no machine is started for."""
    return {
        case.id
        for job in jobs
        for labels, placed in place(matrix, job, machines)
        if not labels
        for case in placed.cases
    }


def describe(row_plan: RowPlan, row: Row) -> str:
    """Return a row as one line for people: its cases, its duration, its machine, and why it is in the plan."""
    cases = sum(len(job.cases) for job in row.jobs)
    reasons = dict.fromkeys(reason for job in row.jobs if (reason := _reason(row_plan, job)))
    where = ", ".join(row.labels) or "no machine"
    why = f" ({'; '.join(reasons)})" if reasons else ""
    return f"{row.id}: {counted(cases, 'case')}, {row.seconds:.0f} s, on [{where}]{why}"


def _reason(row_plan: RowPlan, job: Job) -> str:
    """Return why a job is in the plan. A reason has the job's id from before the job was placed and cut."""
    keys = (key for key in row_plan.reasons if job.id == key or job.id.startswith(f"{key}."))
    return row_plan.reasons.get(next(keys, ""), "")
