"""All that this machine can do: run the jobs, probe the toolchains, and make the dashboard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from kernel_matrix import judging, pipeline
from kernel_matrix.config.plan import Job
from kernel_matrix.config.reads import Checkout
from kernel_matrix.matrix.dashboard import Dashboard, write_dashboard
from kernel_matrix.matrix.kept import Keeper
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.report.document import RunNotes
from kernel_matrix.results import repeat
from kernel_matrix.run import schedule
from kernel_matrix.run.job_command import specification
from kernel_matrix.run.job_run import JobRun, Preparation, environment_facts_of, facts_of
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.store import names
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine

if TYPE_CHECKING:  # DuckDB takes long to import
    from kernel_matrix.results.judged import Judged

_PART_OF_THE_TIME = 40  # writing the page as results come takes at most one part of so many


def run_everything(
    project: Project,
    selected: Selected,
    machine: Machine,
    settings: Settings,
    progress: Progress,
    *,
    expected: Sequence[str] = (),
    on_judged: Callable[[Judged], object],
    probes: Sequence[Callable[[], object]] = (),
    keeper: Keeper | None = None,
) -> Dashboard:
    """Run the selected jobs and ``probes``, and write the dashboard, first when one job has ended.

    Of cases that are not asked for, it has those with earlier results, and the exit status does not speak of them.
    ``on_judged`` gets the verdicts of the selected cases when all jobs have ended; ``expected`` are ``FACT=VALUE``.
    With a ``keeper``, a job with nothing red is not run again while all that it depends on is as it was.

    Raises:
        UserError: another run is at one of the jobs, or a result has another value of a fact.
    """
    settings = replace(settings, tests=project.tests)
    depends = made_from(project, settings, machine, progress, selected.jobs) if keeper else {}
    since = {name: keeper.since(name, depends[name]) for name in depends} if keeper else {}
    kept = {name: when for name, when in since.items() if when}
    for name in kept:
        progress.job(name, "kept")
    rest = tuple(job for job in selected.jobs if job.id not in kept)
    pipeline.keep_the_rest(project, replace(selected, jobs=rest), settings, progress)
    notes = RunNotes(kept=in_words(kept, len(selected.jobs)))
    page = _Page(project, selected, len(rest), notes)
    files = schedule.run(project.matrix, rest, machine, settings, progress, page.result_came, probes)
    with _judged(project, selected) as judged:
        of_run = judged.narrowed(selected.part.cases)
        repeat.check(_results(of_run, selected) if expected else (), expected)
        if keeper:
            made = {job.id for job in rest if names.result_of(project.results, job.id) in files}
            _note_again(keeper, of_run, selected.jobs, {name: depends[name] for name in made})
        on_judged(of_run)
        return _written(project, selected, judged, notes, of_run)


def _judged(project: Project, selected: Selected) -> AbstractContextManager[Judged]:
    """Judge all results of this machine by the plan."""
    row_plan, earlier = selected.row_plan, selected.earlier
    folders = [project.results]
    return judging.judged(project, selected.plan, folders, row_plan=row_plan, earlier=earlier, only=selected.asked)


def _written(
    project: Project, selected: Selected, judged: Judged, notes: RunNotes, asked: Judged | None = None
) -> Dashboard:
    """Write the dashboard."""
    row_plan = selected.row_plan
    left_out = row_plan.left_out if row_plan else len(selected.plan.cases) - len(judged.planned.cell)
    return write_dashboard(project, judged, asked, earlier=selected.earlier, left_out=left_out, notes=notes)


def _results(judged: Judged, selected: Selected) -> list[Record]:
    """Return the results of the jobs that were selected."""
    jobs = {job.id for job in selected.jobs}
    return [record for record in judged.tried() if record.job.get("job") in jobs]


def _note_again(keeper: Keeper, judged: Judged, jobs: Iterable[Job], made: Mapping[str, list[str]]) -> None:
    """Keep the results that were ``made`` now where nothing is red, and no results of a job that has something red."""
    red = {verdict.case.id for verdict in judged.red()}
    for job in jobs:
        if any(case.id in red for case in job.cases):
            keeper.forget(job.id)
        elif job.id in made:
            keeper.remember(job.id, made[job.id])


def made_from(
    project: Project, settings: Settings, machine: Machine, progress: Progress, jobs: Iterable[Job]
) -> dict[str, list[str]]:
    """Return by the id of each job what its results depend on: what it reads, and what it is given.

    It is given its cases with what this machine does with each, and all that its process is told of them.
    """
    checkout = Checkout(project.matrix, project.root)
    preparation = Preparation(project.matrix, machine, settings, progress, ExitStack())

    def of_job(run: JobRun) -> list[str]:
        place = run.job.platform, run.job.toolchain, run.executor
        read = checkout.facts_of(*place, {case.cell.op for case in run.job.cases})
        common = facts_of(run.request, run.executor, ())  # the executor and the device are among them
        common |= environment_facts_of(run.request, run.executor)
        cases = [case for case in run.job.cases if case.id in run.actions]
        given = specification(run.request, run.actions, cases)
        return [repr(common), run.request.toolchain.python, repr(read), repr(run.decisions), given]

    return {job.id: of_job(preparation.decided(job)) for job in jobs}


def in_words(kept: dict[str, str], jobs: int) -> str:
    """Return how many results were kept, and since when, as a sentence; empty if none was kept."""
    if not kept:
        return ""
    return (
        f"The results of {len(kept)} of {jobs} jobs were kept from earlier runs, the oldest of {min(kept.values())}: "
        "what they read, what they are given and this machine are as they were. Probes are kept in the same way. "
        "--anew runs all."
    )


@dataclass
class _Page:
    """The dashboard while the jobs run. It says that its 'missing' cells have not run yet."""

    project: Project
    selected: Selected
    jobs: int
    notes: RunNotes
    ended: int = 0
    next: float = 0.0
    lock: Lock = field(default_factory=Lock)

    def result_came(self, _path: Path) -> None:
        """Write the page anew, unless it was written a short time ago or another thread writes it."""
        self.ended += 1
        if time.monotonic() < self.next or self.ended >= self.jobs or not self.lock.acquire(blocking=False):
            return
        try:
            began = time.monotonic()
            running = f"{self.ended} of {self.jobs} jobs have ended. What is missing here has not run yet."
            with _judged(self.project, self.selected) as judged:
                notes = self.notes.model_copy(update={"running": running})
                _written(self.project, self.selected, judged, notes)
            self.next = time.monotonic() + _PART_OF_THE_TIME * (time.monotonic() - began)
        finally:
            self.lock.release()
