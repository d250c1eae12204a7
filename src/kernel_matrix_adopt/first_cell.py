"""Run the first cell of a new matrix.yaml on this machine's CPU, so that the first answer comes at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.selection import Selection
from kernel_matrix.job.test_names import COLLECTED, IMPORT
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.report.terminal import summary
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.vendors.machine import Machine

_EXECUTOR = "venv"  # an image would take minutes
MOST = 5  # tests: a file may have thousands, and the interpreter of a kernel language is slow


def choose(file: Path, machine: Machine, progress: Progress) -> tuple[Project, Selected]:
    """Find out which tests the suite has, and return the project with the first
    tests of its first file that has any.

    Raises:
        UserError: the file cannot be used.
    """
    project = pipeline.load(file)
    selection = Selection(platforms=(next(iter(project.matrix.platforms)),))
    settings = Settings(project.root, project.build, _EXECUTOR)
    project = pipeline.collect_tests(project, selection, machine, settings, progress)
    selected = pipeline.select(project, selection)
    cases = [case for job in selected.jobs[:1] for case in job.cases]
    if not cases:
        raise UserError(f"{file}: the plan has no case of its first platform.")
    first = min(cases, key=lambda case: case.name in (COLLECTED, IMPORT))  # these say that a file was imported
    chosen = tuple(case for case in cases if case.cell == first.cell)[:MOST]
    return project, replace(selected, jobs=(replace(selected.jobs[0], cases=chosen),))


def run(project: Project, selected: Selected, machine: Machine, progress: Progress) -> tuple[list[str], bool]:
    """Run it, make the page, and return the lines about it and whether it is red."""
    settings = Settings(project.root, project.build, _EXECUTOR, workers=1)
    files = pipeline.run_selected(project, selected, machine, settings, progress)
    with judging.judged(project, selected.part, files) as judged:
        lines, is_red = [*summary(project.matrix, judged, lambda: project.rules)], judged.is_red
    with judging.judged(project, selected.plan, [project.results]) as judged:
        dashboard = write_dashboard(project, judged)
    return [*lines, f"page: {dashboard.index}"], is_red
