"""Plan -> results: run every job that this machine can, and say of every other case why not."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Protocol

from kernel_matrix import executors, junit
from kernel_matrix.executors import InstallError, Interpreter, Request, UnavailableError
from kernel_matrix.junit import Outcome, Record
from kernel_matrix.machine import Device, Machine
from kernel_matrix.matrix import GPUS, Matrix
from kernel_matrix.plan import Case, Job, lane_of
from kernel_matrix.supervise import Supervisor


class Progress(Protocol):
    """Who is told how far the jobs are."""

    def job(self, job: str, text: str) -> None:
        """A job is at something new."""

    def case(self, job: str, outcome: str) -> None:
        """A case of the job has ended."""


@dataclass(frozen=True)
class Settings:
    """How to run: folders, executor, and how many jobs at a time."""

    root: Path
    build: Path
    executor: str = "venv"
    workers: int = 1
    resume: bool = False
    excluded: bool = False  # try the excluded cases too


@dataclass(frozen=True)
class Decision:
    """What this machine does with a case: an action, or the reason for none."""

    action: str = ""
    outcome: Outcome = "unavailable"
    reason: str = ""


def run(matrix: Matrix, jobs: Sequence[Job], machine: Machine, settings: Settings, progress: Progress) -> list[Path]:
    """Run the jobs and return their result files, in the order of the jobs.

    A job's file in the results folder is replaced by what comes now; the other files stay as they are.
    """
    results = settings.build / "results"
    results.mkdir(parents=True, exist_ok=True)
    if not settings.resume:
        for job in jobs:
            (results / f"{job.id}.xml").unlink(missing_ok=True)
    prepared = [_prepare(matrix, job, machine, settings, progress) for job in jobs]
    gpu = Lock()  # jobs that run on a GPU take turns on it
    with ThreadPoolExecutor(settings.workers) as pool:
        # The longest first, so that no core waits at the end for a job that began late.
        longest_first = sorted(prepared, key=lambda work: -len(work.actions))
        files = {work.job.id: pool.submit(_finish, work, gpu) for work in longest_first if not work.job.alone}
    alone = {work.job.id: _finish(work, gpu) for work in prepared if work.job.alone}
    return [alone[job.id] if job.alone else files[job.id].result() for job in jobs]


def decide(matrix: Matrix, case: Case, machine: Machine, *, excluded: bool = False) -> Decision:
    """What this machine can do with a case; ``excluded`` ones are tried only when asked. A pure function."""
    if case.exclusion and not excluded:
        return Decision(outcome="excluded", reason=case.exclusion.reason)
    platform = matrix.platforms[case.cell.platform]
    lane = lane_of(matrix, case.cell.platform, case.cell.toolchain)
    if lane.runs and machine.device_for(platform.device, case.cell.target):
        return Decision(action="emulate" if lane.emulated or platform.device == "software" else "run")
    here = ", ".join(t for d in machine.devices if d.vendor == platform.device for t in d.targets)
    lacking = f"this machine has no {platform.title} device for {case.cell.target}" + (
        f" (only {here})" if here else ""
    )
    if platform.device == "cpu" or not matrix.toolchains[case.cell.toolchain].ahead_of_time:
        return Decision(reason=f"{lacking}, and {case.cell.toolchain} has nothing to compile without one")
    return Decision(action="compile")


@dataclass
class _Work:
    """One job with all that its run needs."""

    matrix: Matrix
    job: Job
    settings: Settings
    progress: Progress
    device: Device | None
    decisions: Mapping[str, Decision]
    interpreter: Interpreter | None = None
    refusal: Record | None = None  # what every case gets if there is no interpreter
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def actions(self) -> dict[str, str]:
        """What to do with each case that this machine can do something with."""
        return {case: decision.action for case, decision in self.decisions.items() if decision.action}

    def ended(self, record: Record) -> None:
        """Take a case's record."""
        self.records[record.case] = record
        self.progress.case(self.job.id, record.outcome)


def _prepare(matrix: Matrix, job: Job, machine: Machine, settings: Settings, progress: Progress) -> _Work:
    decisions = {case.id: decide(matrix, case, machine, excluded=settings.excluded) for case in job.cases}
    vendor = matrix.platforms[job.platform].device
    device = next((d for c in job.cases if (d := machine.device_for(vendor, c.cell.target))), None)
    work = _Work(matrix, job, settings, progress, device, decisions)
    if not work.actions:
        return work
    request = Request(
        root=settings.root,
        build=settings.build,
        toolchain_name=job.toolchain,
        toolchain=matrix.toolchains[job.toolchain],
        gpu=vendor in GPUS and device is not None,
        say=lambda text: progress.job(job.id, text),
    )
    try:
        work.interpreter = executors.load(settings.executor)(request)
    except UnavailableError as reason:
        work.refusal = Record("", "unavailable", message=str(reason))
    except InstallError as error:
        text = str(error)
        work.refusal = Record("", "error", stage="install", message=text.splitlines()[-1], detail=text)
    return work


def _finish(work: _Work, gpu: Lock) -> Path:
    """Run the job, and write the records of all its cases."""
    began, started = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for case in work.job.cases:
        decision = work.decisions[case.id]
        if not decision.action:
            work.ended(Record(case.id, decision.outcome, message=decision.reason))
        elif work.refusal:
            work.ended(replace(work.refusal, case=case.id))
    environment: dict[str, str] = {}
    if work.interpreter:
        root, build = work.settings.root, work.settings.build
        supervisor = Supervisor(work.matrix, work.job, work.actions, work.interpreter, root, build, work.ended)
        work.progress.job(work.job.id, "running")
        with gpu if work.device and work.device.vendor in GPUS else nullcontext():
            environment = supervisor.run(resume=work.settings.resume)
    facts = {
        "job": work.job.id,
        "platform": work.job.platform,
        "toolchain": work.job.toolchain,
        "executor": work.settings.executor,
        "device": work.device.name if work.device else "none",
        "driver": work.device.driver if work.device else "",
        "commit": commit(work.settings.root),
        "lock.sha256": sha256(
            (work.settings.root / work.matrix.toolchains[work.job.toolchain].lock).read_bytes()
        ).hexdigest(),
        "started": started,
        "seconds": f"{time.monotonic() - began:.1f}",
        **environment,
    }
    path = work.settings.build / "results" / f"{work.job.id}.xml"
    junit.write(path, work.job.id, [work.records[c.id] for c in work.job.cases if c.id in work.records], facts)
    work.progress.job(work.job.id, "done")
    return path


def commit(root: Path) -> str:
    """The commit that was tested, with ``+changes`` when the tree differs from it.

    Outside a git checkout it is what KERNEL_MATRIX_COMMIT says, for a copy of the tree that left its history behind.
    """

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
        except FileNotFoundError:  # no git on this machine
            return ""
        return done.stdout.strip()

    revision = git("rev-parse", "--short=12", "HEAD")
    if not revision:
        return os.environ.get("KERNEL_MATRIX_COMMIT", "")
    return f"{revision}+changes" if git("status", "--porcelain") else revision
