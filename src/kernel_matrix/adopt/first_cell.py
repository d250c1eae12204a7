"""Run the first cell of a new matrix.yaml on this machine's CPU, so that the first answer comes at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import Case, Cell, Job
from kernel_matrix.config.selection import Selection, sampled
from kernel_matrix.config.suite import tests_of
from kernel_matrix.job.test_names import IMPORT, SUITE
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.report.terminal import summary
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.run.supervise import JOB_LIMIT
from kernel_matrix.store import names
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine

_EXECUTOR = "venv"  # an image would take minutes
_MOST = 3  # tests of a file: it may have thousands, and the interpreter of a kernel language is slow
_FILES = 5  # that are tried until a test runs: the tests of the first files may need a GPU
SECONDS = 600  # of the build; and of the tests, each file the same part of it
_TRIED, _TRIAL = 10, 60  # tests spread over the suite, and seconds of them, that show how long the suite takes
_WHOLE = 240  # seconds of a lane: of a suite that takes longer the quick tier has a sample


class Ended(NamedTuple):
    """The end of a file's tests: the lines about them, and whether they are red, ran here, and were cut by the time."""

    lines: list[str]
    red: bool = False
    ran: bool = False
    is_cut: bool = False
    reasons: tuple[str, ...] = ()  # why none of its tests runs here
    seconds: float = 0.0  # of a test in the slowest lane


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
    settings = Settings(project.root, project.build, _EXECUTOR, workers=len(selected.jobs), seconds=seconds)
    files = pipeline.run_selected(project, selected, machine, settings, progress)
    with judging.judged(project, selected.part, files) as judged:
        records = {record.case: record for record in judged.of_cases()}
        is_cut = any(JOB_LIMIT in record.message for record in records.values())
        said = {state for state, count in judged.counts.items() if count} - {"unavailable"}
        said -= {"error", "missing"} if is_cut else set()
        lines = [*summary(project.matrix, judged, lambda: project.rules)]
        reasons = judged.reasons("unavailable") if not said else filter(_LEFT_OUT.search, judged.reasons("error"))
        red = judged.is_red if not is_cut else "fail" in said
        slowest = max(_seconds(job, records, seconds) for job in selected.jobs)
        ended = Ended(lines, red, bool(said), is_cut, tuple(reasons), slowest)
    if is_cut:  # another run must not take what these seconds cut for a result
        for job in selected.jobs:
            names.remove(project.results, job.id)
    return ended


def _seconds(job: Job, records: Mapping[str, Record], limit: float) -> float:
    """Return how long a test of a job takes: one with another, and no less than the time by those that ended in it."""
    ends = [records[case.id] for case in job.cases if case.id in records]
    ended = [record.seconds for record in ends if JOB_LIMIT not in record.message]
    count = max(1, len(ended))
    return max(sum(ended) / count, limit / count if len(ended) < len(ends) else 0.0)


def spread(project: Project, tried: int) -> Selected | None:
    """Return tests spread over the suite, in all lanes of the first platform; None where all of them were tried."""
    selected = pipeline.select(project, Selection(platforms=(next(iter(project.matrix.platforms)),)))
    if max(len(job.cases) for job in selected.jobs) <= tried:
        return None
    return replace(selected, jobs=tuple(sampled(selected.jobs, _TRIED)))


def try_spread(project: Project, selected: Selected, machine: Machine, progress: Progress) -> tuple[Ended, str]:
    """Run tests that are spread over the suite, and return their end; and what matrix.yaml then says of a sample.

    It says so where the whole suite takes long: a first page is to come in minutes.
    """
    every = len(tests_of(project.matrix))
    ended = run(project, selected, machine, progress, _TRIAL)
    minutes = ended.seconds * every / 60
    if minutes * 60 <= _WHOLE:
        return ended, ""
    some = max(1, int(_WHOLE / ended.seconds))
    return ended, (
        f"  sample: {some} # tests in the quick tier, of {every:,}, which take about {minutes:.0f} minutes here. The "
        "full tier has all: --tier full\n"
    )


def write_sample(file: Path, line: str) -> str:
    """Write the sample into a matrix.yaml that ``init`` wrote, and return the sentence about it."""
    text = file.read_text(encoding="utf-8")
    before, suite, after = re.split(r"^(  suite: .*\n)", text, maxsplit=1, flags=re.MULTILINE)
    file.write_text(f"{before}{suite}{line}{after}", encoding="utf-8")
    entry, _, words = line.strip().partition(" # ")
    return f"`{entry}` into {file.name}: {words}"


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
