"""Run the first cell of a new matrix.yaml on this machine's CPU, so that the first answer comes at once."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import Case, Cell
from kernel_matrix.config.selection import Selection
from kernel_matrix.job.test_names import IMPORT, SUITE
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.report.terminal import summary
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.store import names
from kernel_matrix.vendors.machine import Machine

_EXECUTOR = "venv"  # an image would take minutes
_MOST = 5  # tests of a file: it may have thousands, and the interpreter of a kernel language is slow
_FILES = 5  # that are tried until a test runs: the tests of the first files may need a GPU
SECONDS = 600  # of the build; and of the tests, each file the same part of it


class Ended(NamedTuple):
    """The end of a file's tests: the lines about them, and whether they are red, ran here, and were cut by the time."""

    lines: list[str]
    red: bool = False
    ran: bool = False
    is_cut: bool = False
    reasons: tuple[str, ...] = ()  # why none of its tests runs here


# What the reason of a skip says where a device is asked for.
_DEVICE = re.compile(
    r"\b(gpus?|cuda\w*|nvidia\S*|cupy|rocm|hip|amdgpu|tpus?|xpu|devices?|accelerators?|hopper|blackwell|tensorrt|sm_?\d+)\b",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(r"its own settings leave out all")  # by a marker, most often of tests for a GPU


class Idle(NamedTuple):
    """The tests that were tried and do not run here: how many, the reason, and whether they ask for a GPU."""

    tried: int
    reason: str
    of_device: bool


def idle(ended: Sequence[tuple[Ended, int]]) -> Idle | None:
    """Return what is known of a suite of which no test that was tried runs here; None where one does, or was cut.

    With each end comes the number of its cases.
    """
    if not ended or any(one.is_cut or not one.reasons for one, _ in ended):
        return None
    reasons = [reason for one, _ in ended for reason in one.reasons]
    of_device = any(_DEVICE.search(reason) or _LEFT_OUT.search(reason) for reason in reasons)
    return Idle(sum(count for _, count in ended), reasons[0], of_device)


def choose(file: Path, machine: Machine, progress: Progress) -> tuple[Project, list[Selected], bool]:
    """Find out which tests the suite has, and return the project with the first tests of its first files that have any.

    The third value says whether there is a test. Where none could be collected, the cases that say why are chosen.

    Raises:
        UserError: the file cannot be used.
    """
    project = pipeline.load(file)
    selection = Selection(platforms=(next(iter(project.matrix.platforms)),))
    settings = Settings(project.root, project.build, _EXECUTOR)
    limits = project.matrix.limits
    limited = _limited(project, build=min(limits.build, SECONDS))
    collected = pipeline.collect_tests(limited, selection, machine, settings, progress)
    project = _limited(collected, build=limits.build)
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


def run(project: Project, selected: Selected, machine: Machine, progress: Progress, seconds: float) -> Ended:
    """Run the tests of a file for so many seconds at most. What they cut has not ended, and is not red."""
    settings = Settings(project.root, project.build, _EXECUTOR, workers=1, seconds=seconds)
    began = time.monotonic()
    files = pipeline.run_selected(project, selected, machine, settings, progress)
    is_cut = time.monotonic() - began >= seconds
    with judging.judged(project, selected.part, files) as judged:
        said = {state for state, count in judged.counts.items() if count} - {"unavailable"}
        said -= {"error", "missing"} if is_cut else set()
        lines = [*summary(project.matrix, judged, lambda: project.rules)]
        reasons = judged.reasons("unavailable") if not said else filter(_LEFT_OUT.search, judged.reasons("error"))
        red = judged.is_red if not is_cut else "fail" in said
        ended = Ended(lines, red, bool(said), is_cut, tuple(reasons))
    if is_cut:  # another run must not take what these seconds cut for a result
        for job in selected.jobs:
            names.remove(project.results, job.id)
    return ended


def on_time(project: Project) -> str:
    """Return the sentence about tests or a build that took longer than ``init`` gives them."""
    limits = project.matrix.limits
    return (
        f"the time is over: init gives the build and the first tests {SECONDS} s each, and what has not ended is not "
        f"known. `kernel-matrix matrix` gives the build {limits.build:g} s and each test {limits.case:g} s "
        "(`limits` in matrix.yaml). Where other tests are quicker, write their folder as `suite` in matrix.yaml."
    )


def _limited(project: Project, **seconds: float) -> Project:
    """Return a project with other time limits."""
    matrix = project.matrix
    return replace(project, matrix=matrix.model_copy(update={"limits": matrix.limits.model_copy(update=dict(seconds))}))


def page(project: Project, selected: Selected) -> Path:
    """Make the page of what has run, and return its path."""
    with judging.judged(project, selected.plan, [project.results]) as judged:
        return write_dashboard(project, judged).index
