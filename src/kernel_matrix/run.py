"""Plan -> results: run every job that this machine can, and say of every other case why not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import kernel_matrix
from kernel_matrix import executors, junit
from kernel_matrix.executors import Child, InstallError, Interpreter, Request, UnavailableError
from kernel_matrix.journal import Event, Journal
from kernel_matrix.junit import Outcome, Record
from kernel_matrix.machine import Device, Machine
from kernel_matrix.matrix import Lane, Matrix
from kernel_matrix.plan import Case, Job

_POLL_SECONDS = 0.05
_LOG_TAIL = 60  # lines of a dead process's output that go into its case


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
        return list(pool.map(lambda work: _finish(work, gpu), prepared))


def decide(matrix: Matrix, case: Case, machine: Machine) -> Decision:
    """What this machine can do with a case. A pure function."""
    if case.exclusion:
        return Decision(outcome="excluded", reason=case.exclusion.reason)
    platform = matrix.platforms[case.cell.platform]
    lane = lane_of(matrix, case.cell.platform, case.cell.toolchain)
    if machine.device_for(platform.device, case.cell.target):
        return Decision(action="emulate" if lane.emulated else "run")
    here = ", ".join(t for d in machine.devices if d.vendor == platform.device for t in d.targets)
    lacking = f"this machine has no {platform.title} device for {case.cell.target}" + (
        f" (only {here})" if here else ""
    )
    if platform.device == "cpu" or not matrix.toolchains[case.cell.toolchain].ahead_of_time:
        return Decision(reason=f"{lacking}, and {case.cell.toolchain} has nothing to compile without one")
    return Decision(action="compile")


def lane_of(matrix: Matrix, platform: str, toolchain: str) -> Lane:
    """The platform's entry for a toolchain."""
    return next(lane for lane in matrix.platforms[platform].lanes if lane.toolchain == toolchain)


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
    def folder(self) -> Path:
        return self.settings.build / "jobs" / self.job.id

    @property
    def runnable(self) -> list[Case]:
        return [case for case in self.job.cases if self.decisions[case.id].action]


def _prepare(matrix: Matrix, job: Job, machine: Machine, settings: Settings, progress: Progress) -> _Work:
    decisions = {case.id: decide(matrix, case, machine) for case in job.cases}
    vendor = matrix.platforms[job.platform].device
    device = next((d for c in job.cases if (d := machine.device_for(vendor, c.cell.target))), None)
    work = _Work(matrix, job, settings, progress, device, decisions)
    if not work.runnable:
        return work
    request = Request(
        root=settings.root,
        build=settings.build,
        toolchain_name=job.toolchain,
        toolchain=matrix.toolchains[job.toolchain],
        gpu=vendor != "cpu" and device is not None,
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
    began, started = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    work.folder.mkdir(parents=True, exist_ok=True)
    for case in work.job.cases:
        decision = work.decisions[case.id]
        if not decision.action:
            _end(work, Record(case.id, decision.outcome, message=decision.reason))
        elif work.refusal:
            refusal = work.refusal
            _end(work, Record(case.id, refusal.outcome, "", refusal.stage, refusal.message, refusal.detail))
    environment: dict[str, str] = {}
    if work.interpreter:
        if any(work.decisions[case.id].action == "run" for case in work.runnable) and work.device.vendor != "cpu":  # type: ignore[union-attr]
            with gpu:
                environment = _Runner(work, work.interpreter).run()
        else:
            environment = _Runner(work, work.interpreter).run()
    facts = {
        "job": work.job.id,
        "platform": work.job.platform,
        "toolchain": work.job.toolchain,
        "executor": work.settings.executor,
        "device": work.device.name if work.device else "none",
        "driver": work.device.driver if work.device else "",
        "commit": commit(work.settings.root),
        "started": started,
        "seconds": f"{time.monotonic() - began:.1f}",
        **environment,
    }
    path = work.settings.build / "results" / f"{work.job.id}.xml"
    junit.write(path, work.job.id, [work.records[c.id] for c in work.job.cases if c.id in work.records], facts)
    work.progress.job(work.job.id, "done")
    return path


def _end(work: _Work, record: Record) -> None:
    work.records[record.case] = record
    work.progress.case(work.job.id, record.outcome)


class _Runner:
    """Start processes for a job until each of its cases has ended, and write the ends that a dead one could not."""

    def __init__(self, work: _Work, interpreter: Interpreter) -> None:
        self.work = work
        self.interpreter = interpreter
        self.limits = work.matrix.limits
        self.deadline = time.monotonic() + self.limits.job
        self.journal = Journal(work.folder / "journal.jsonl")
        self.log = work.folder / "log.txt"
        self.seen = 0  # events of the journal already taken in
        self.in_flight: Event | None = None
        self.stage = "import"
        self.since = 0.0  # when the case in flight, or the process, began
        self.tried: dict[str, list[str]] = {}
        self.broken: Event | None = None
        self.environment: dict[str, str] = {}

    def run(self) -> dict[str, str]:
        """Run all cases; return what the job's processes said of their environment."""
        cases = self.work.runnable
        specification = self._specification(cases)
        job_file = self.work.folder / "job.json"
        if not self.work.settings.resume or not job_file.exists() or job_file.read_text() != specification:
            self.journal.path.unlink(missing_ok=True)
            self.log.unlink(missing_ok=True)
        job_file.write_text(specification)
        self._take_in()
        self._end_in_flight("crash", "the job was interrupted while this case ran")
        while remaining := [case for case in cases if case.id not in self.work.records]:
            if time.monotonic() >= self.deadline:
                self._give_up(remaining, "missing", "", f"the job's time limit of {self.limits.job:g} s came first")
                break
            self._one_process(remaining)
        return self.environment

    def _specification(self, cases: Iterable[Case], attempts: Mapping[str, int] | None = None) -> str:
        work = self.work
        lane = lane_of(work.matrix, work.job.platform, work.job.toolchain)
        return json.dumps(
            {
                "job": work.job.id,
                "backend": work.matrix.toolchains[work.job.toolchain].backend,
                "device": "cpu" if work.matrix.platforms[work.job.platform].device == "cpu" else "cuda",
                "accuracy": work.matrix.accuracy.model_dump(),
                "environment": lane.environment,
                "cases": [
                    {
                        "id": case.id,
                        "name": case.name,
                        "op": case.cell.op,
                        "direction": case.cell.direction,
                        "target": case.cell.target,
                        "axes": dict(case.axes),
                        "action": work.decisions[case.id].action,
                        "attempt": (attempts or {}).get(case.id, 1),
                    }
                    for case in cases
                ],
            },
            indent=1,
        )

    def _one_process(self, remaining: Sequence[Case]) -> None:
        """Run what remains in one process, until it ends or has to be ended."""
        work = self.work
        attempts = {case.id: len(self.tried.get(case.id, ())) + 1 for case in remaining}
        todo = work.folder / "todo.json"
        todo.write_text(self._specification(remaining, attempts))
        before = self.log.stat().st_size if self.log.exists() else 0
        ended_before = len(work.records) + sum(map(len, self.tried.values()))
        status = self._watch(self._start(todo))
        output = self._output(before)
        if status is not None:
            self._end_in_flight("crash", _death(status, self.stage), output)
        still = [case for case in remaining if case.id not in work.records]
        progressed = len(work.records) + sum(map(len, self.tried.values())) > ended_before
        if still and not progressed and time.monotonic() < self.deadline:
            if self.broken:
                self._give_up(still, "error", "import", self.broken["message"], self.broken["detail"])
            elif status in (0, 5):
                ops = ", ".join(sorted({f"{case.cell.op!r}, {case.cell.direction!r}" for case in still}))
                self._give_up(still, "missing", "", f"the suite has no test marked op({ops})")
            else:
                last = [line for line in output.splitlines() if line.strip()][-1:] or [_death(status or 0, "import")]
                self._give_up(still, "error", "import", last[0], output)

    def _start(self, todo: Path) -> Child:
        work = self.work
        self.broken, self.since, self.stage = None, time.monotonic(), "import"
        root, package = work.settings.root, work.matrix.package
        sources = [str(root / package.source), str(Path(kernel_matrix.__file__).parent.parent)]
        caches = work.settings.build / "cache"
        arguments = [
            *("-m", "pytest", "-p", "kernel_matrix.plugin", "-p", "no:cacheprovider", "-W", "default"),
            *("-q", "--no-header", "--color=no", "--tb=short", "-rN"),
            *("--rootdir", str(root / package.suite), "-c", str(_empty_ini(work.folder))),
            *("--job", str(todo), "--journal", str(self.journal.path), str(root / package.suite)),
        ]
        environment = {
            "PYTHONPATH": ":".join([*dict.fromkeys(sources), *_inherited_path()]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONFAULTHANDLER": "1",
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "TILELANG_CACHE_DIR": str(caches / "tilelang"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            **lane_of(work.matrix, work.job.platform, work.job.toolchain).environment,
        }
        return self.interpreter.start(arguments, environment, root, self.log)

    def _watch(self, child: Child) -> int | None:
        """Follow the journal until the process ends; None if it had to be killed."""
        while True:
            status = child.poll()
            self._take_in()
            now = time.monotonic()
            if status is not None:
                return status
            if now >= self.deadline:
                child.kill()
                self._take_in()
                self._end_in_flight(
                    "timeout", f"the job's time limit of {self.limits.job:g} s ended it in {self.stage}"
                )
                return None
            if now - self.since > self.limits.case:
                child.kill()
                self._take_in()
                if self.in_flight:
                    self._end_in_flight("timeout", f"no end after {self.limits.case:g} s, in stage {self.stage}")
                else:
                    message = f"the suite did not start its next case within {self.limits.case:g} s"
                    self.broken = self.broken or {"message": message, "detail": self._output(0)}
                return None
            time.sleep(_POLL_SECONDS)

    def _take_in(self) -> None:
        """Take in what the journal has new."""
        events = list(self.journal.events())
        for event in events[self.seen :]:
            match event["event"]:
                case "job":
                    self.environment = {key: str(value) for key, value in event["facts"].items()}
                    self.work.progress.job(self.work.job.id, "running")
                case "start":
                    self.in_flight, self.since, self.stage = event, time.monotonic(), "import"
                case "stage":
                    self.stage = event["stage"]
                case "end":
                    self._case_ended(event)
                case "broken":
                    self.broken = event
        self.seen = len(events)

    def _case_ended(self, event: Event) -> None:
        self.in_flight, self.since = None, time.monotonic()
        case, outcome = event["case"], event["outcome"]
        earlier = self.tried.setdefault(case, [])
        if outcome != "pass" and len(earlier) + 1 < self.limits.attempts:
            earlier.append(f"{outcome}:{event.get('stage') or ''}".rstrip(":"))
            return
        _end(
            self.work,
            Record(
                case=case,
                outcome=outcome,
                action=event.get("action", ""),
                stage=event.get("stage") or "",
                message=event.get("message") or "",
                detail=event.get("detail") or "",
                seconds=event.get("seconds", 0.0),
                attempts=tuple(earlier),
                metrics=event.get("metrics", {}),
                facts=event.get("facts", {}),
            ),
        )

    def _end_in_flight(self, stage: str, message: str, detail: str = "") -> None:
        """Write the end of a case whose process could not."""
        if self.in_flight is None:
            return
        seconds = max(0.0, time.monotonic() - self.since)
        fields: dict[str, Any] = {"case": self.in_flight["case"], "action": self.in_flight["action"]}
        fields |= {"attempt": self.in_flight["attempt"], "outcome": "error", "stage": stage, "seconds": seconds}
        self.journal.write("end", **fields, message=message, detail=detail, facts={"during": self.stage})
        self._take_in()

    def _give_up(self, cases: Iterable[Case], outcome: Outcome, stage: str, message: str, detail: str = "") -> None:
        for case in cases:
            if case.id not in self.work.records:
                _end(self.work, Record(case.id, outcome, "", stage, message, detail))

    def _output(self, start: int) -> str:
        """The last lines of what the process printed."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(start)
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL:])


def _empty_ini(folder: Path) -> Path:
    """A job is not to be changed by whatever pytest configuration lies around the suite."""
    path = folder / "pytest.ini"
    path.write_text("[pytest]\n")
    return path


def _inherited_path() -> list[str]:

    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def _death(status: int, stage: str) -> str:
    if status < 0:
        return f"the process died of {signal.Signals(-status).name} in stage {stage}"
    return f"the process ended with exit status {status} in stage {stage}"


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
