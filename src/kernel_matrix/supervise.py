"""One job's processes: start them, follow their journal, and write the ends that a dead one could not."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import kernel_matrix
from kernel_matrix.executors import Child, Interpreter
from kernel_matrix.journal import Event, Journal
from kernel_matrix.junit import Outcome, Record
from kernel_matrix.matrix import Matrix
from kernel_matrix.plan import Case, Job, lane_of

_POLL_SECONDS = 0.05
_LOG_TAIL = 60  # lines of a dead process's output that go into its case


class Supervisor:
    """Start processes for a job until each of its cases has ended, and write the ends that a dead one could not."""

    def __init__(
        self,
        matrix: Matrix,
        job: Job,
        actions: Mapping[str, str],
        interpreter: Interpreter,
        root: Path,
        build: Path,
        ended: Callable[[Record], None],
    ) -> None:
        """``actions`` says for each case of the job that is to run what to do; ``ended`` gets each case's record."""
        self.matrix, self.job, self.actions = matrix, job, actions
        self.interpreter, self.root, self.build, self.ended = interpreter, root, build, ended
        self.folder = build / "jobs" / job.id
        self.lane = lane_of(matrix, job.platform, job.toolchain)
        self.limits = matrix.limits
        self.deadline = time.monotonic() + self.limits.job
        self.journal = Journal(self.folder / "journal.jsonl")
        self.log = self.folder / "log.txt"
        self.records: dict[str, Record] = {}
        self.in_flight: Event | None = None
        self.stage = "import"
        self.since = 0.0  # when the case in flight, or the process, began
        self.tried: dict[str, list[str]] = {}
        self.broken: Event | None = None
        self.environment: dict[str, str] = {}

    def run(self, *, resume: bool) -> dict[str, str]:
        """Run all cases; return what the job's processes said of their environment."""
        self.folder.mkdir(parents=True, exist_ok=True)
        cases = [case for case in self.job.cases if case.id in self.actions]
        specification = self._specification(cases)
        job_file = self.folder / "job.json"
        if not resume or not job_file.exists() or job_file.read_text() != specification:
            self.journal.path.unlink(missing_ok=True)
            self.log.unlink(missing_ok=True)
        job_file.write_text(specification)
        self._take_in()
        self._end_in_flight("crash", "the job was interrupted while this case ran")
        while remaining := [case for case in cases if case.id not in self.records]:
            if time.monotonic() >= self.deadline:
                self._give_up(remaining, "missing", "", f"the job's time limit of {self.limits.job:g} s came first")
                break
            self._one_process(remaining)
        return self.environment

    def _specification(self, cases: Iterable[Case], attempts: Mapping[str, int] | None = None) -> str:
        return json.dumps(
            {
                "job": self.job.id,
                "backend": self.matrix.toolchains[self.job.toolchain].backend,
                "device": "cpu" if self.matrix.platforms[self.job.platform].device == "cpu" else "cuda",
                "accuracy": self.matrix.accuracy.model_dump(),
                "environment": self.lane.environment,
                "cases": [
                    {
                        "id": case.id,
                        "name": case.name,
                        "op": case.cell.op,
                        "direction": case.cell.direction,
                        "target": case.cell.target,
                        "axes": dict(case.axes),
                        "action": self.actions[case.id],
                        "attempt": (attempts or {}).get(case.id, 1),
                    }
                    for case in cases
                ],
            },
            indent=1,
        )

    def _one_process(self, remaining: Sequence[Case]) -> None:
        """Run what remains in one process, until it ends or has to be ended."""
        attempts = {case.id: len(self.tried.get(case.id, ())) + 1 for case in remaining}
        todo = self.folder / "todo.json"
        todo.write_text(self._specification(remaining, attempts))
        before = self.log.stat().st_size if self.log.exists() else 0
        ended_before = len(self.records) + sum(map(len, self.tried.values()))
        status = self._watch(self._start(todo))
        output = self._output(before)
        if status is not None:
            self._end_in_flight("crash", death(status, self.stage), output)
        still = [case for case in remaining if case.id not in self.records]
        progressed = len(self.records) + sum(map(len, self.tried.values())) > ended_before
        if still and not progressed and time.monotonic() < self.deadline:
            if self.broken:
                self._give_up(still, "error", "import", self.broken["message"], self.broken["detail"])
            elif status in (0, 5):
                ops = ", ".join(sorted({f"{case.cell.op!r}, {case.cell.direction!r}" for case in still}))
                self._give_up(still, "missing", "", f"the suite has no test marked op({ops})")
            else:
                last = [line for line in output.splitlines() if line.strip()][-1:] or [death(status or 0, "import")]
                self._give_up(still, "error", "import", last[0], output)

    def _start(self, todo: Path) -> Child:
        self.broken, self.since, self.stage = None, time.monotonic(), "import"
        root, package = self.root, self.matrix.package
        sources = [str(root / package.source), str(Path(kernel_matrix.__file__).parent.parent)]
        cache = str(self.build / "cache")
        arguments = [
            *("-m", "pytest", "-p", "kernel_matrix.plugin", "-p", "no:cacheprovider", "-W", "default"),
            *("-q", "--no-header", "--color=no", "--tb=short", "-rN"),
            *("--rootdir", str(root / package.suite), "-c", str(_empty_ini(self.folder))),
            *("--job", str(todo), "--journal", str(self.journal.path), str(root / package.suite)),
        ]
        environment = {
            "PYTHONPATH": ":".join([*dict.fromkeys(sources), *_inherited_path()]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONFAULTHANDLER": "1",
            **{name: value.replace("{cache}", cache) for name, value in package.environment.items()},
            **self.lane.environment,
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
        for event in self.journal.new_events():
            match event["event"]:
                case "job":
                    self.environment = {key: str(value) for key, value in event["facts"].items()}
                case "start":
                    self.in_flight, self.since, self.stage = event, time.monotonic(), "import"
                case "stage":
                    self.stage = event["stage"]
                case "end":
                    self._case_ended(event)
                case "broken":
                    self.broken = event

    def _case_ended(self, event: Event) -> None:
        self.in_flight, self.since = None, time.monotonic()
        case, outcome = event["case"], event["outcome"]
        earlier = self.tried.setdefault(case, [])
        if outcome != "pass" and len(earlier) + 1 < self.limits.attempts:
            earlier.append(f"{outcome}:{event.get('stage') or ''}".rstrip(":"))
            return
        self._end(
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

    def _end(self, record: Record) -> None:
        record = replace(record, message=self._portable(record.message), detail=self._portable(record.detail))
        self.records[record.case] = record
        self.ended(record)

    def _portable(self, text: str) -> str:
        """Paths as they are below the repository: results travel, and nobody else has this machine's folders."""
        for folder, name in ((self.build, "build"), (self.root, "."), (Path.home(), "~")):
            text = text.replace(f"{folder}/", f"{name}/")
        return text

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
            if case.id not in self.records:
                self._end(Record(case.id, outcome, "", stage, message, detail))

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


def death(status: int, stage: str) -> str:
    """What a process died of, in words."""
    if status < 0:
        return f"the process died of {signal.Signals(-status).name} in stage {stage}"
    return f"the process ended with exit status {status} in stage {stage}"
