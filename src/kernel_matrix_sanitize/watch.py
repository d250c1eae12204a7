"""Run the quick cases with a tool around the kernels' process, in the ordinary pipeline, and keep what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import Job
from kernel_matrix.config.selection import Selection, narrow
from kernel_matrix.job.watcher import VARIABLE
from kernel_matrix.pipeline import Project
from kernel_matrix.results.states import Verdict
from kernel_matrix.run import schedule
from kernel_matrix.run.decide import decide
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.vendors.machine import Machine
from kernel_matrix_sanitize import tools
from kernel_matrix_sanitize.explained import Explanation, explanations

_SLOWER = 20  # how much longer a case and a job may take


@dataclass(frozen=True)
class Finding:
    """A fault that a tool found in a case."""

    case: str
    kernel: str
    line: str
    text: str
    explained: str  # why it is no fault, where somebody has found that out


@dataclass(frozen=True)
class Cell:
    """The cases of a cell under a tool: how many ended with right numbers and no finding, and the others."""

    cell: str
    watched: int
    findings: tuple[Finding, ...]
    unfinished: tuple[str, ...]  # the case and why it came to no end, though nothing was found


@dataclass(frozen=True)
class Watched:
    """One tool on one machine."""

    tool: str
    version: str
    facts: dict[str, str]  # of the jobs: commit, device, driver, started
    cells: tuple[Cell, ...]

    @property
    def findings(self) -> list[Finding]:
        """The findings of all cells."""
        return [finding for cell in self.cells for finding in cell.findings]

    @property
    def is_red(self) -> bool:
        """True if something was found that nobody has explained, or a case came to no end."""
        return any(cell.unfinished for cell in self.cells) or not all(one.explained for one in self.findings)

    def as_data(self) -> dict[str, object]:
        """Return the same as JSON can hold it."""
        return asdict(self)


def jobs_to_watch(project: Project, machine: Machine, selection: Selection) -> list[Job]:
    """Return the jobs of the selection with the cases that run on an NVIDIA GPU of this machine, none timed.

    Raises:
        UserError: there is none.
    """
    planned = pipeline.plan_for(project, selection)
    jobs = []
    for job in narrow(project.matrix, planned, planned.jobs, selection):
        decisions = {case.id: decide(project.matrix, case, machine) for case in job.cases if not case.timed}
        running = tuple(case for case in job.cases if case.id in decisions and decisions[case.id].action == "run")
        if running and project.matrix.platforms[job.platform].device == "nvidia":
            jobs.append(replace(job, cases=running))
    if not jobs:
        raise UserError("nothing to watch: no case of what was asked for runs on an NVIDIA GPU of this machine.")
    return jobs


def watch(
    project: Project, jobs: Sequence[Job], tool: str, machine: Machine, settings: Settings, progress: Progress
) -> Watched:
    """Run the jobs under a tool. The results stay in the folder of ``settings``, away from those of the matrix."""
    path, known = tools.program(), explanations(project)
    own = _project(project, path, tool)
    planned = replace(pipeline.plan(own, "quick"), jobs=tuple(jobs))
    files = schedule.run(own.matrix, jobs, machine, settings, progress)
    with judging.judged(own, planned, files) as judged:
        verdicts, facts = judged.verdicts(), judged.jobs.facts
    names = ("commit", "device", "driver", "started")
    of_jobs = {name: ", ".join(sorted({job[name] for job in facts.values() if job.get(name)})) for name in names}
    return Watched(tool, tools.version(path), of_jobs, tuple(_cells(verdicts, tool, known)))


def build_folder(project: Project, tool: str) -> Path:
    """Return a tool's own folder for results, which shares the environments of the project."""
    folder = project.build / "sanitize" / tool
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "envs").exists():
        (project.build / "envs").mkdir(exist_ok=True)
        (folder / "envs").symlink_to(project.build / "envs")
    return folder


def _project(project: Project, path: str, tool: str) -> Project:
    """Return the project whose jobs start their kernels under the tool, with time for that."""
    matrix, slower = project.matrix, {"case": _SLOWER, "job": _SLOWER}
    limits = {name: getattr(matrix.limits, name) * times for name, times in slower.items()}
    environment = {**matrix.package.environment, **tools.ENVIRONMENT, VARIABLE: tools.watcher(path, tool)}
    update = {
        "limits": matrix.limits.model_copy(update={**limits, "attempts": 1}),
        "package": matrix.package.model_copy(update={"environment": environment}),
    }
    return replace(project, matrix=matrix.model_copy(update=update), checked=None)


def _cells(verdicts: Sequence[Verdict], tool: str, known: Sequence[Explanation]) -> list[Cell]:
    cells: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        cells.setdefault(verdict.case.cell.id, []).append(verdict)
    return [_cell(name, of_cell, tool, known) for name, of_cell in cells.items()]


def _cell(name: str, verdicts: Sequence[Verdict], tool: str, known: Sequence[Explanation]) -> Cell:
    findings, unfinished, watched = [], [], 0
    for verdict in verdicts:
        detail = verdict.record.detail if verdict.record else ""
        if found := tools.findings(tool, detail):
            findings += [_finding(verdict.case.id, text, tool, known) for text in found]
        elif verdict.evidence == "ran":
            watched += 1
        else:
            unfinished.append(f"{verdict.case.id}: {verdict.state}: {verdict.reason.splitlines()[0]}")
    return Cell(name, watched, tuple(findings), tuple(unfinished))


def _finding(case: str, text: str, tool: str, known: Sequence[Explanation]) -> Finding:
    place, first_line = tools.place(text), text.splitlines()[0].strip("= ")
    reason = next((one.reason for one in known if one.holds(tool, place.kernel, first_line)), "")
    return Finding(case, place.kernel, place.line, text, reason)
