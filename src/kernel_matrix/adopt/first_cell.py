"""Run the first cell of a new matrix.yaml on this machine's CPU, so that the first answer comes at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import Case, Cell
from kernel_matrix.config.selection import Selection
from kernel_matrix.job.test_names import IMPORT, SUITE
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.report.terminal import summary
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.vendors.machine import Machine

_EXECUTOR = "venv"  # an image would take minutes
_MOST = 5  # tests of a file: it may have thousands, and the interpreter of a kernel language is slow
_FILES = 5  # that are tried until a test runs: the tests of the first files may need a GPU


def choose(file: Path, machine: Machine, progress: Progress) -> tuple[Project, list[Selected], bool]:
    """Find out which tests the suite has, and return the project with the first tests of its first files that have any.

    The third value says whether there is a test. Where none could be collected, the cases that say why are chosen.

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
    tests = [case for case in cases if case.cell.op != SUITE and case.name != IMPORT]
    found: dict[Cell, list[Case]] = {}
    for case in tests or sorted(cases, key=lambda case: case.cell.op == SUITE)[:1]:
        found.setdefault(case.cell, []).append(case)
    job = selected.jobs[0]
    chosen = [replace(job, cases=tuple(of_file[:_MOST])) for of_file in [*found.values()][:_FILES]]
    return project, [replace(selected, jobs=(job,)) for job in chosen], bool(tests)


def run(project: Project, selected: Selected, machine: Machine, progress: Progress) -> tuple[list[str], bool, bool]:
    """Run it, and return the lines about it, whether it is red, and whether any of it could run on this machine."""
    settings = Settings(project.root, project.build, _EXECUTOR, workers=1)
    files = pipeline.run_selected(project, selected, machine, settings, progress)
    with judging.judged(project, selected.part, files) as judged:
        lines = [*summary(project.matrix, judged, lambda: project.rules)]
        return lines, judged.is_red, any(state != "unavailable" for state in judged.counts)


def page(project: Project, selected: Selected) -> Path:
    """Make the page of what has run, and return its path."""
    with judging.judged(project, selected.plan, [project.results]) as judged:
        return write_dashboard(project, judged).index
