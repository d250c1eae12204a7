"""Run the quick cases with a tool around the kernels' process, in the ordinary pipeline, and keep what it finds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.models import Strict
from kernel_matrix.config.plan import Job
from kernel_matrix.config.selection import Selection
from kernel_matrix.job.watcher import VARIABLE
from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check, Finding
from kernel_matrix.results.states import RED
from kernel_matrix.run import schedule
from kernel_matrix.run.decide import decide
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.run.supervise import JOB_LIMIT
from kernel_matrix.tools.sanitize import tools
from kernel_matrix.vendors.machine import Machine

_SLOWER = 20  # how much longer a case and a job may take
_CHARACTERS = 2000  # of a finding's text that are kept
_INTERPRETER = "TRITON_INTERPRET"  # the variable with which Triton runs in Python
_FACTS = ("commit", "device", "driver")


def jobs_to_watch(project: Project, machine: Machine, selection: Selection, tool: str) -> list[Job]:
    """Return the jobs of the selection with the cases that a tool can watch on this machine, none timed.

    Raises:
        UserError: there is none.
    """
    jobs = []
    interpreted = tool == tools.TILELENS
    for job in pipeline.select(project, selection).jobs:
        platform = project.matrix.platforms[job.platform]
        decisions = {case.id: decide(project.matrix, case, machine) for case in job.cases if not case.timed}
        actions = ("run", "emulate") if interpreted else ("run",)
        running = tuple(case for case in job.cases if case.id in decisions and decisions[case.id].action in actions)
        in_interpreter = platform.by_toolchain[job.toolchain].environment.get(_INTERPRETER) == "1"
        fits = in_interpreter if interpreted else platform.device == "nvidia"
        if running and fits:
            jobs.append(replace(job, cases=running))
    if not jobs:
        where = "in Triton's interpreter" if interpreted else "on an NVIDIA GPU of this machine"
        raise UserError(f"nothing to watch: no case of what was asked for runs {where}.")
    return jobs


def folder_of(project: Project, tool: str) -> Path:
    """Return the folder of a tool's runs, with the compilers' caches of the matrix: a tool slows compilers down."""
    return project.apart("sanitize", tool, shares=("envs", "cache")).build


def watch(
    project: Project,
    jobs: Sequence[Job],
    tool: str,
    machine: Machine,
    settings: Settings,
    progress: Progress,
    minutes: float | None = None,
) -> Check:
    """Run the jobs under a tool, each at most so long. The results stay in the folder of ``settings``."""
    of_nvidia, known = tool in tools.OF_NVIDIA, explanations(project)
    path = tools.program() if of_nvidia else tools.libraries(project.build)
    own = _project(project, path, tool, minutes)
    planned = replace(pipeline.plan(own, "quick"), jobs=tuple(jobs))
    files = schedule.run(own.matrix, jobs, machine, settings, progress)
    with judging.judged(own, planned, files) as judged:
        verdicts, facts = judged.verdicts(), judged.jobs.facts
    said = {name: ", ".join(sorted({job[name] for job in facts.values() if job.get(name)})) for name in _FACTS}
    findings, unfinished = list[Finding](), dict[str, str]()
    cut = {one.case.id for one in verdicts if minutes and one.record and JOB_LIMIT in one.record.message}
    for verdict in (one for one in verdicts if one.case.id not in cut):
        if found := tools.findings(tool, verdict.record.detail if verdict.record else ""):
            findings += [_finding(verdict.case.id, text, tool, known) for text in found]
        elif verdict.evidence != tools.TOOLS[tool].evidence or verdict.state in RED:
            unfinished[verdict.case.id] = f"{verdict.state}: {verdict.reason.splitlines()[0]}"
    return Check(
        name=tool,
        program=f"{tools.PROGRAM} {tools.version(path)}, driver {said['driver'] or 'unknown'}"
        if of_nvidia
        else tools.PINS[0].replace("==", " "),
        sees=tools.TOOLS[tool].sees,
        machine=said["device"],
        commit=said["commit"],
        when=min((job["started"] for job in facts.values()), default=""),
        note=f"Each job had {minutes:g} minutes." if cut else "",
        cells=checks.cells_of([one.case.id for one in verdicts], findings, unfinished, cut),
        findings=tuple(findings),
        unfinished=tuple(f"{case}: {text}" for case, text in unfinished.items()),
    )


def _project(project: Project, path: str, tool: str, minutes: float | None) -> Project:
    """Return the project whose jobs start their kernels under the tool, with time for that."""
    matrix, limits = project.matrix, project.matrix.limits
    environment = {**matrix.package.environment, **tools.ENVIRONMENT, VARIABLE: tools.watcher(path, tool)}
    job = 60 * minutes if minutes else limits.job * _SLOWER
    update = {
        "limits": limits.model_copy(update={"case": limits.case * _SLOWER, "job": job, "attempts": 1}),
        "package": matrix.package.model_copy(update={"environment": environment}),
    }
    return replace(project, matrix=matrix.model_copy(update=update), checked=None)


def _finding(case: str, text: str, tool: str, known: Sequence[Explanation]) -> Finding:
    place, first_line = tools.place(tool, text), text.splitlines()[0].strip("= ")
    reason = next((one.reason for one in known if one.holds(tool, place.kernel, first_line)), "")
    return Finding(case=case, kernel=place.kernel, line=place.line, text=text[:_CHARACTERS], explained=reason)


FILE = "sanitize.yaml"


class Explanation(Strict):
    """Hold why a finding is no fault of the kernel."""

    tool: str = Field(description="The tool that finds it.")
    kernel: str = Field(description="The kernel, by its whole name.")
    finding: str = Field(description="The beginning of the finding's first line.")
    reason: str = Field(description="Why it is no fault.", min_length=20)

    def holds(self, tool: str, kernel: str, first_line: str) -> bool:
        """Return whether this is about a finding."""
        name = re.split(r"[(<]", kernel)[0]
        return (tool, name) == (self.tool, self.kernel) and first_line.startswith(self.finding)


def explanations(project: Project) -> tuple[Explanation, ...]:
    """Return the package's explanations; none where it has no such file.

    Raises:
        UserError: the file cannot be used.
    """
    return checks.explanations(project.root, project.matrix.package.probes, FILE, Explanation)
