"""Run the first cell of a new matrix.yaml on this machine's CPU, so that the first answer comes at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.selection import Selection
from kernel_matrix.lab.dashboard import make_dashboard
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.report.terminal import summary
from kernel_matrix.run.schedule import Progress, Settings
from kernel_matrix.vendors.machine import Machine

_EXECUTOR = "venv"  # an image would take minutes


def choose(file: Path) -> tuple[Project, Selected]:
    """Return the project, and of its plan the first cell of the first platform.

    Raises:
        UserError: the file cannot be used.
    """
    project = pipeline.load(file)
    selected = pipeline.select(project, Selection(platforms=(next(iter(project.matrix.platforms)),)))
    job = selected.jobs[0] if selected.jobs else None
    if job is None or not job.cases:
        raise UserError(f"{file}: the plan has no case of its first platform.")
    cases = tuple(case for case in job.cases if case.cell == job.cases[0].cell)
    return project, replace(selected, jobs=(replace(job, cases=cases),))


def run(project: Project, selected: Selected, machine: Machine, progress: Progress) -> tuple[list[str], bool]:
    """Run it, make the page, and return the lines about it and whether it is red."""
    settings = Settings(project.root, project.build, _EXECUTOR, workers=1)
    comparison = pipeline.run_and_compare(project, selected, machine, settings, progress, ())
    dashboard = make_dashboard(project, selected.plan, [project.results])
    return [*summary(project.matrix, comparison, project.rules), f"page: {dashboard.index}"], comparison.is_red
