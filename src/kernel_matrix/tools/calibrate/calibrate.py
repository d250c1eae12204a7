"""Run the quick cases with many seeds in the ordinary pipeline, and measure their noise. matrix.yaml stays as it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.config.model import Matrix, Op
from kernel_matrix.config.plan import Case, Job
from kernel_matrix.config.selection import Selection, narrow
from kernel_matrix.pipeline import Project
from kernel_matrix.results.states import Verdict
from kernel_matrix.run import schedule
from kernel_matrix.run.decide import decide
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.tools.calibrate.noise import Noise, noise_of
from kernel_matrix.vendors.machine import Machine

_DOES_SO = ("run", "emulate")


@dataclass(frozen=True)
class Seeded:
    """The project with seeded cases, and its jobs that this machine can run; ``left_out`` has a sentence for others."""

    project: Project
    jobs: tuple[Job, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Calibration:
    """The noise of all seeds, and what became of the cases."""

    noises: tuple[Noise, ...]
    outcomes: dict[str, int]
    alarms: tuple[Verdict, ...]  # cases that failed or came to no number
    canaries: tuple[int, int]  # injected and caught
    facts: dict[str, tuple[str, ...]]  # of the jobs: commit, device, executor and start


def seeded(
    project: Project, machine: Machine, seeds: int, selection: Selection, ops: Sequence[str] = (), *, build: Path
) -> Seeded:
    """Return the quick cases of the selection with the seeds 0 to ``seeds`` - 1, those that this machine can run.

    Raises:
        UserError: a name is not in the matrix, no operator has a seed, or nothing of what is asked for can run here.
    """
    matrix = _seeded_matrix(project.matrix, seeds)
    _check_ops(matrix, ops)
    own = replace(project, matrix=matrix, build=build, checked=None)
    planned = pipeline.plan(own, "quick")
    jobs, left_out = [], []
    for job in narrow(matrix, planned, planned.jobs, selection):
        asked = [case for case in job.cases if _is_asked(case, ops)]
        decisions = {case.id: decide(matrix, case, machine) for case in asked}
        running = tuple(case for case in asked if decisions[case.id].action in _DOES_SO)
        if running:
            jobs.append(replace(job, cases=running))
        elif asked:
            reasons = [one.reason for one in decisions.values() if one.reason]
            left_out.append(f"{job.id}: {reasons[0] if reasons else 'it is only compiled here, and nothing runs'}")
    _check_named(selection, jobs, left_out)
    return Seeded(own, tuple(jobs), tuple(left_out))


def calibrate(seeded_jobs: Seeded, machine: Machine, settings: Settings, progress: Progress) -> Calibration:
    """Run the jobs and return their noise.

    Raises:
        UserError: no case came to a number.
    """
    project = seeded_jobs.project
    planned = replace(pipeline.plan(project, "quick"), jobs=seeded_jobs.jobs)
    files = schedule.run(project.matrix, seeded_jobs.jobs, machine, settings, progress)
    with judging.judged(project, planned, files) as judged:
        verdicts, outcomes, canaries, jobs = judged.verdicts(), judged.counts, judged.canaries, judged.jobs.facts
    noises = noise_of(verdicts, project.matrix.accuracy)
    alarms = tuple(verdict for verdict in verdicts if verdict.state in ("fail", "error", "missing"))
    if not noises:
        first = f" The first: {alarms[0].case.id}: {alarms[0].reason.splitlines()[0]}" if alarms else ""
        raise UserError(f"no case came to a number, so there is no noise to measure.{first}")
    facts = {
        name: tuple(sorted({job[name] for job in jobs.values() if job.get(name)}))
        for name in ("commit", "device", "executor", "started")
    }
    return Calibration(tuple(noises), {str(state): count for state, count in outcomes.items()}, alarms, canaries, facts)


def _seeded_matrix(matrix: Matrix, seeds: int) -> Matrix:
    """Return the matrix with seeds in all quick groups, nothing timed, one attempt, and time for all of it."""
    ops = {name: _seeded_op(op, seeds) for name, op in matrix.ops.items() if "seed" in op.axes}
    if not ops:
        raise UserError("no operator of matrix.yaml has the axis 'seed': give them one, and a default for it.")
    limits = matrix.limits.model_copy(update={"job": matrix.limits.job * seeds, "attempts": 1})
    return matrix.model_copy(update={"ops": ops, "limits": limits})


def _seeded_op(op: Op, seeds: int) -> Op:
    groups = [{**group, "seed": list(range(seeds))} for group in op.cases.get("quick", ())]
    return op.model_copy(update={"cases": {"quick": groups}, "timed": []})


def _check_ops(matrix: Matrix, names: Collection[str]) -> None:
    known = [*matrix.ops, *(f"{name}.{way}" for name, op in matrix.ops.items() for way in op.directions)]
    for name in names:
        if name not in known:
            raise unknown("--op", "operator with the axis 'seed'", name, known)


def _is_asked(case: Case, ops: Collection[str]) -> bool:
    return not ops or bool({case.cell.op, f"{case.cell.op}.{case.cell.direction}"} & {*ops})


def _check_named(selection: Selection, jobs: Sequence[Job], left_out: Sequence[str]) -> None:
    """Check that every platform and toolchain that a person named has a job.

    Raises:
        UserError: one has none, or nothing is left at all.
    """
    running = {name for job in jobs for name in (job.platform, job.toolchain)}
    for kind, names in (("--platform", selection.platforms), ("--toolchain", selection.toolchains)):
        for name in names:
            if name not in running:
                reasons = "; ".join(left_out) or "what was asked for has no case of it"
                raise UserError(f"{kind} {name}: nothing of it can run here. {reasons}.")
    if not jobs:
        reasons = "; ".join(left_out) or "no case was asked for"
        raise UserError(f"nothing can run here, and noise comes only from runs. {reasons}.")
