"""All that this machine can do: run the jobs, probe the toolchains, and make the dashboard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from kernel_matrix import pipeline
from kernel_matrix.config.plan import Job
from kernel_matrix.matrix.dashboard import Dashboard, make_dashboard
from kernel_matrix.matrix.kept import Keeper
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.report.notes import RunNotes
from kernel_matrix.results import repeat
from kernel_matrix.results.compare import RED, Comparison
from kernel_matrix.results.tables import names
from kernel_matrix.run import executors
from kernel_matrix.run.schedule import Progress, Settings
from kernel_matrix.vendors.machine import Machine

_PART_OF_THE_TIME = 40  # writing the page as results come takes at most one part of so many


def run_everything(
    project: Project,
    selected: Selected,
    machine: Machine,
    settings: Settings,
    progress: Progress,
    *,
    expected: Sequence[str] = (),
    on_comparison: Callable[[Comparison], object],
    probes: Sequence[Callable[[], object]] = (),
    keeper: Keeper | None = None,
) -> Dashboard:
    """Run the selected jobs and ``probes``, and write the dashboard of the whole plan, first when one job has ended.

    ``on_comparison`` gets the states of the selected cases when all jobs have ended; ``expected`` are ``FACT=VALUE``.
    With a ``keeper``, a job with nothing red is not run again while all that it depends on is as it was.

    Raises:
        UserError: another run is at one of the jobs, or a result has another value of a fact.
    """
    depends = {job.id: _made_from(project, settings, job) for job in selected.jobs}
    since = {name: keeper.since(name, depends[name]) for name in depends} if keeper else {}
    kept = {name: when for name, when in since.items() if when}
    for name in kept:
        progress.job(name, "kept")
    rest = tuple(job for job in selected.jobs if job.id not in kept)
    pipeline.keep_the_rest(project, replace(selected, jobs=rest), settings, progress)
    notes = RunNotes(kept=in_words(kept, len(selected.jobs)))
    page = _Page(project, selected, len(rest), notes)
    files = pipeline.run(project, rest, machine, settings, progress, page.result_came, probes)
    collected = pipeline.collect(project, [*files, *filter(None, (_result(project, name) for name in kept))])
    repeat.check(collected.records, expected)
    comparison = pipeline.compare(project, selected.part, collected)
    if keeper:
        _remember(
            keeper, comparison, [job for job in rest if names.result_of(project.results, job.id) in files], depends
        )
    on_comparison(comparison)
    return _dashboard(project, selected, notes)


def _result(project: Project, job: str) -> Path | None:
    return names.result_of(project.results, job)


def _remember(keeper: Keeper, comparison: Comparison, jobs: Iterable[Job], depends: Mapping[str, list[str]]) -> None:
    """Keep the results of the jobs that have nothing red."""
    red = {verdict.case.id for cell in comparison.cells for verdict in cell.cases if verdict.state in RED}
    for job in jobs:
        if not any(case.id in red for case in job.cases):
            keeper.remember(job.id, depends[job.id])


def _dashboard(project: Project, selected: Selected, notes: RunNotes) -> Dashboard:
    return make_dashboard(
        project,
        selected.plan,
        [project.results],
        row_plan=selected.row_plan,
        earlier=selected.earlier,
        notes=notes,
    )


def _made_from(project: Project, settings: Settings, job: Job) -> list[str]:
    """Return what a job's results depend on, beside the source and the machine."""
    executor, _ = executors.choose(settings.executor, project.matrix.platforms[job.platform])
    return [executor, *(case.id for case in job.cases)]


def in_words(kept: dict[str, str], jobs: int) -> str:
    """Return how many results were kept, and since when, as a sentence; empty if none was kept."""
    if not kept:
        return ""
    return (
        f"The results of {len(kept)} of {jobs} jobs were kept from earlier runs, the oldest of {min(kept.values())}: "
        "the source, the locks, the matrix and this machine are as they were. Probes are kept in the same way. "
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
            _dashboard(self.project, self.selected, self.notes.model_copy(update={"running": running}))
            self.next = time.monotonic() + _PART_OF_THE_TIME * (time.monotonic() - began)
        finally:
            self.lock.release()
