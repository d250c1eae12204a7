"""Plan -> results: run every job that this machine can, and say of every other case why not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import Protocol

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.git import commit
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, Job, platform_toolchain
from kernel_matrix.results import junit
from kernel_matrix.results.record import Outcome, Record
from kernel_matrix.run import executors
from kernel_matrix.run.executors import InstallError, Interpreter, MachineError, Prepare, Request, UnavailableError
from kernel_matrix.run.supervise import Supervisor
from kernel_matrix.vendors.machine import Machine


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
    executor: str = executors.AUTO
    workers: int = 1
    resume: bool = False
    excluded: bool = False  # try the excluded cases too


@dataclass(frozen=True)
class Decision:
    """What this machine does with a case: an action, or the reason for none."""

    action: str = ""
    outcome: Outcome = "unavailable"
    reason: str = ""


def run(
    matrix: Matrix,
    jobs: Sequence[Job],
    machine: Machine,
    settings: Settings,
    progress: Progress,
    on_result: Callable[[Path], object] | None = None,
) -> list[Path]:
    """Run the jobs and return the result files that could be written, in the order of the jobs.

    ``on_result`` is called with each result file as soon as it is written, from the thread of its job.

    A job's file in the results folder is replaced by what comes now; the other files stay as they are.

    Raises:
        UserError: another run is at one of the jobs, in the same folder.
    """
    results = settings.build / "results"
    results.mkdir(parents=True, exist_ok=True)
    gpu, stop = Lock(), Event()  # jobs that run on a GPU take turns on it

    def finish(work: _Work) -> Path | None:
        path = _finish(work, gpu, stop)
        if path and on_result:
            on_result(path)
        return path

    with ExitStack() as stack:
        for job in jobs:
            try:
                stack.enter_context(locked(settings.build / "jobs" / f"{job.id}.lock"))
            except BusyError:
                folder = settings.build / "jobs" / job.id
                raise UserError(f"{folder}: another run is at it. Wait for its end, or give --build FOLDER.") from None
        if not settings.resume:
            for job in jobs:
                (results / f"{job.id}.xml").unlink(missing_ok=True)
        prepare = _Prepare(matrix, machine, settings, progress, stack)
        prepared = [prepare(job) for job in jobs]
        with ThreadPoolExecutor(settings.workers) as pool:
            # The longest first, so that no core waits at the end for a job that began late.
            longest_first = sorted(prepared, key=lambda work: -len(work.actions))
            together = {
                work.request.job.id: pool.submit(finish, work) for work in longest_first if not work.request.job.alone
            }
            try:
                written = {name: future.result() for name, future in together.items()}
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
        for work in prepared:
            if work.request.job.alone:
                written[work.request.job.id] = finish(work)
    return [path for job in jobs if (path := written[job.id]) is not None]


def decide(matrix: Matrix, case: Case, machine: Machine, *, excluded: bool = False) -> Decision:
    """What this machine can do with a case; ``excluded`` ones are tried only when asked. A pure function."""
    if case.exclusion and not excluded:
        return Decision(outcome="excluded", reason=case.exclusion.reason)
    platform = matrix.platforms[case.cell.platform]
    lane = platform_toolchain(matrix, case.cell.platform, case.cell.toolchain)
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

    request: Request
    settings: Settings
    progress: Progress
    executor: str
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
        self.progress.case(self.request.job.id, record.outcome)


@dataclass
class _Prepare:
    """Decide for each job what this machine does with its cases, and make its environment."""

    matrix: Matrix
    machine: Machine
    settings: Settings
    progress: Progress
    stack: ExitStack  # closes the executors
    loaded: dict[str, Prepare] = field(default_factory=dict)  # one of each executor for the whole run

    def __call__(self, job: Job) -> _Work:
        matrix, machine, settings, progress = self.matrix, self.machine, self.settings, self.progress
        decisions = {case.id: decide(matrix, case, machine, excluded=settings.excluded) for case in job.cases}
        platform = matrix.platforms[job.platform]
        device = next((d for c in job.cases if (d := machine.device_for(platform.device, c.cell.target))), None)
        request = Request(settings.root, settings.build, matrix, job, device, lambda text: progress.job(job.id, text))
        executor, _ = executors.choose(settings.executor, platform)
        work = _Work(request, settings, progress, executor, decisions)
        if not work.actions:
            return work
        if executor not in self.loaded:
            self.loaded[executor] = self.stack.enter_context(executors.load(executor))
        try:
            work.interpreter = self.loaded[executor](request)
        except UnavailableError as reason:
            work.refusal = Record("", "unavailable", message=str(reason))
        except InstallError as error:
            text = str(error)
            work.refusal = Record("", "error", stage="install", message=text.splitlines()[-1], detail=text)
        except MachineError as error:
            work.refusal = Record("", "error", stage="machine", message=str(error))
        return work


def _finish(work: _Work, gpu: Lock, stop: Event) -> Path | None:
    """Run the job, and write the records of all its cases; None if there was no writing them."""
    began, started = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    request, job, settings = work.request, work.request.job, work.settings
    for case in job.cases:
        decision = work.decisions[case.id]
        if not decision.action:
            work.ended(Record(case.id, decision.outcome, message=decision.reason))
        elif work.refusal:
            work.ended(replace(work.refusal, case=case.id))
    environment: dict[str, str] = {}
    if work.interpreter:
        supervisor = Supervisor(request, work.actions, work.interpreter, work.ended, stop)
        work.progress.job(job.id, "running")
        with gpu if request.gpu else nullcontext():
            environment = {**work.interpreter.facts, **supervisor.run(resume=settings.resume)}
    facts = {
        "job": job.id,
        "platform": job.platform,
        "toolchain": job.toolchain,
        "executor": work.executor,
        "device": request.device.name if request.device else "none",
        "driver": request.device.driver if request.device else "",
        "commit": commit(settings.root),
        "lock.sha256": sha256(request.lock.read_bytes()).hexdigest(),
        "started": started,
        "seconds": f"{time.monotonic() - began:.1f}",
        **environment,
    }
    path = settings.build / "results" / f"{job.id}.xml"
    try:
        junit.write(path, job.id, [work.records[c.id] for c in job.cases if c.id in work.records], facts)
    except OSError as error:
        work.progress.job(
            job.id, f"its results are lost, {path}: {error.strerror or error}. Make room and run it again"
        )
        return None
    work.progress.job(job.id, "done")
    return path
