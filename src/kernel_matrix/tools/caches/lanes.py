"""The lanes that are tried, and a run of one: the ordinary pipeline, with the caches of all compilers in one folder."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import Case, Cell, Job
from kernel_matrix.config.selection import Selection
from kernel_matrix.job.watcher import VARIABLE
from kernel_matrix.pipeline import Project
from kernel_matrix.run import schedule
from kernel_matrix.run.decide import decide
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.tools.caches import disks
from kernel_matrix.tools.caches.results import NotTriedError, Ran, result_of
from kernel_matrix.vendors.machine import Machine

_PLACE = "{cache}"  # in a value of package.environment: the folder of all caches
_ACTIONS = ("run", "emulate", "compile")  # the best first
_NEVER = "(?!)"  # the program before the kernel's process finds nothing


@dataclass(frozen=True)
class LaneRuns:
    """A job with few cases, and what it takes to run it with any cache."""

    project: Project
    job: Job
    others: tuple[Job, ...]  # the same cases of other versions
    machine: Machine
    executor: str
    progress: Progress

    @property
    def name(self) -> str:
        """The platform, target and toolchain, as the page has them."""
        return self.job.cases[0].cell.id.rpartition("/")[0]

    @property
    def folder(self) -> Path:
        """The folder of all runs."""
        return self.project.build / "caches" / self.job.id

    @property
    def cache(self) -> Path:
        """The folder of the caches, the same in all runs: some compilers write its path into their files."""
        return self.folder / "compiled"

    @property
    def kept(self) -> Path:
        """A copy of what the first run left in an empty cache."""
        return self.folder / "kept"

    def run(self, before: Sequence[str] = ()) -> Ran:
        """Run the cases; the words ``before`` stand before the command of the kernel's process."""
        return self._run(self.job, "alone", before)

    def run_together(self) -> list[Ran]:
        """Run the cases in two jobs, whose kernels' processes begin at the same time."""
        meeting = self.folder / "meeting"
        shutil.rmtree(meeting, ignore_errors=True)
        meeting.mkdir()
        names = ("one", "two")
        with ThreadPoolExecutor(len(names)) as pool:
            return list(pool.map(lambda name: self._run(self.job, name, disks.meeting(meeting)), names))

    def run_other_version(self) -> None:
        """Run the cases with another version of the toolchain.

        Raises:
            NotTriedError: there is none.
        """
        if not self.others:
            raise NotTriedError("matrix.yaml has no other version of it for these cases")
        ran = self._run(self.others[0], "other", ())
        if not any(result.ended for result in ran.results.values()):
            reason = next(iter(ran.results.values())).words.splitlines()[0]
            raise NotTriedError(f"{self.others[0].toolchain} does not run: {reason}")

    def _run(self, job: Job, name: str, before: Sequence[str]) -> Ran:
        own = self._project(name, before)
        settings = Settings(own.root, own.build, self.executor)
        files = schedule.run(own.matrix, [job], self.machine, settings, self.progress)
        planned = replace(pipeline.plan(own, "quick"), jobs=(job,))
        with judging.judged(own, planned, files, asks_present=False) as judged:
            with_bits = {record.case: record for record in judged.of_cases()}
            return Ran({one.case.id: result_of(one, with_bits.get(one.case.id)) for one in judged.verdicts()})

    def _project(self, name: str, before: Sequence[str]) -> Project:
        matrix = self.project.matrix
        environment = {key: value.replace(_PLACE, str(self.cache)) for key, value in matrix.package.environment.items()}
        if before:
            environment[VARIABLE] = json.dumps({"command": list(before), "finding": _NEVER})
        update = {
            "limits": matrix.limits.model_copy(update={"attempts": 1}),
            "package": matrix.package.model_copy(update={"environment": environment}),
        }
        apart = self.project.apart("caches", self.job.id, name, shares=("envs", "cache"))
        return replace(apart, matrix=matrix.model_copy(update=update), checked=None)


def variables_of(project: Project) -> list[str]:
    """Return the variables that name the compilers' caches.

    Raises:
        UserError: there is none.
    """
    names = [name for name, value in project.matrix.package.environment.items() if _PLACE in value]
    if not names:
        raise UserError(
            "matrix.yaml names no compile cache. Write the variable of each into package.environment, such as "
            'TRITON_CACHE_DIR: "{cache}/triton".'
        )
    return names


def lanes_of(
    project: Project, machine: Machine, selection: Selection, most: int, executor: str, progress: Progress
) -> list[LaneRuns]:
    """Return the lanes of the selection, each on one target and with at most ``most`` cases.

    Raises:
        UserError: a name is not in the matrix, or there is none that this machine can run or compile.
    """
    jobs: dict[tuple[str, str], Job] = {}
    for job in pipeline.select(project, selection).jobs:
        if cases := _few(project, job, machine, most):
            jobs.setdefault((job.platform, job.toolchain), replace(job, cases=cases))
    if not jobs:
        raise UserError("nothing to try: this machine neither runs nor compiles a case of what was asked for.")
    planned = pipeline.plan(project, "quick").jobs
    return [
        LaneRuns(project, job, _others(project, job, planned, machine), machine, executor, progress)
        for job in jobs.values()
    ]


def _few(project: Project, job: Job, machine: Machine, most: int) -> tuple[Case, ...]:
    """Return few cases of the target for which this machine can do most, the first one of each cell first."""
    actions = {case.id: decide(project.matrix, case, machine).action for case in job.cases if not case.timed}
    cases = [case for case in job.cases if actions.get(case.id) in _ACTIONS]
    target = min(cases, key=lambda case: _ACTIONS.index(actions[case.id])).cell.target if cases else ""
    places, turns = Counter[Cell](), dict[str, int]()
    for case in cases:
        turns[case.id] = places[case.cell]
        places[case.cell] += 1
    in_turns = sorted((case for case in cases if case.cell.target == target), key=lambda case: turns[case.id])
    return tuple(in_turns[:most])


def _others(project: Project, job: Job, planned: Sequence[Job], machine: Machine) -> tuple[Job, ...]:
    """Return the same cases of the toolchains that have the same backend and another lock."""
    matrix, wanted = project.matrix, {_question(case) for case in job.cases}
    backend, lock = matrix.toolchains[job.toolchain].backend, matrix.lock_of(job.platform, job.toolchain)
    others = []
    for other in planned:
        if other.platform != job.platform or matrix.toolchains[other.toolchain].backend != backend:
            continue
        if matrix.lock_of(other.platform, other.toolchain) == lock:
            continue
        cases = tuple(case for case in other.cases if not case.timed and _question(case) in wanted)
        if cases and decide(matrix, cases[0], machine).action in _ACTIONS:
            others.append(replace(other, cases=cases))
    return tuple(others)


def _question(case: Case) -> tuple[str, str, str, str]:
    """Return what a case asks of any toolchain."""
    return case.cell.target, case.cell.op, case.cell.direction, case.name
