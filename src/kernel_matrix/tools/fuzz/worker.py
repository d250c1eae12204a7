"""The process in a toolchain's environment that runs the cases which the search asks for, one after the other."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case
from kernel_matrix.job import own_files
from kernel_matrix.job.handed import words
from kernel_matrix.job.journal import Entry, Journal
from kernel_matrix.run import job_command
from kernel_matrix.run.executors import Child, Interpreter, Request
from kernel_matrix.run.harness import copy_folder, copy_with
from kernel_matrix.run.own_time import OwnTime
from kernel_matrix.run.supervise import death
from kernel_matrix.tools.fuzz.case_names import SEED, Tried

_PLUGIN = {"kernel_matrix.job.plugin": "kernel_matrix.tools.fuzz.inside.plugin"}
_LOOK = 0.01  # seconds between two looks into the journal
_START = 300.0  # seconds that the start of the process may take: it imports the suite


class WorkerError(Exception):
    """The process cannot work at all. The text says why."""


class Worker:
    """A process of the job's kind. One that ended or hangs is replaced by another one for the next case."""

    def __init__(
        self,
        request: Request,
        interpreter: Interpreter,
        cases: Sequence[Case],
        actions: Mapping[str, str],
        backend: str = "",
    ) -> None:
        """``cases`` are one of each cell that will be asked for; another ``backend`` is in place of the toolchain's."""
        self.request, self.interpreter = request, interpreter
        self._described = cases, actions
        job = json.loads(job_command.specification(request, actions, cases))
        if backend:
            job |= {"backend": backend, "backend_module": None, "interpreted": False}
            job["cases"] = [{**case, "action": "run"} for case in job["cases"]]
        self._patterns = {(case["op"], case["direction"]): case for case in job["cases"]}
        self._folder = request.folder / backend
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._job = json.dumps(job)
        own_files.write(self._folder / "job.json", self._job)
        self._child: Child | None = None
        self._baseline: Worker | None = None
        self._count = 0

    @property
    def baseline(self) -> Worker:
        """A process in which the package's reference is the kernel under test."""
        if self._baseline is None:
            reference = self.matrix.package.reference
            assert reference
            self._baseline = Worker(self.request, self.interpreter, *self._described, reference)
        return self._baseline

    @property
    def matrix(self) -> Matrix:
        """The matrix of the cases."""
        return self.request.matrix

    def run(self, tried: Tried, seconds: float) -> Entry | None:
        """Return the end of a case; None after so many seconds without one. The process is ended then.

        Raises:
            WorkerError: no process can work.
        """
        child = self._running()
        self._count += 1
        asked = self._asked(tried)
        os.write(self._pipe, f"{json.dumps(asked)}\n".encode())
        end = self._wait("end", seconds, child, asked["id"])
        if end is None or end["entry"] == "death":
            self.close()
        return end

    def close(self) -> None:
        """End the process, and the baseline's process."""
        if self._baseline is not None:
            self._baseline.close()
        if self._child is not None:
            child, self._child = self._child, None
            child.kill()
            os.close(self._pipe)
            self._journal.close()

    def _asked(self, tried: Tried) -> dict[str, Any]:
        op = self.matrix.ops[tried.op]
        return {
            **self._patterns[tried.op, tried.direction],
            "id": f"{self._count}",
            "name": tried.case_name(op),
            "axes": tried.all_axes(op),
            "timed": False,
            "attempt": 1,
            "canary": tried.views,  # the cases with canaries call the operator as users do, with views
            "values": tried.values_text,
            "seed": tried.seed,
            "seeded": SEED in op.axes,
        }

    def _running(self) -> Child:
        if self._child is not None:
            return self._child
        folder, seen = self._folder, self.interpreter.seen
        pipe, journal = folder / "asked", folder / f"journal-{self._count}.jsonl"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        self._pipe = os.open(pipe, os.O_RDWR)
        self._journal = Journal(journal, secrets.token_hex(16))
        arguments = job_command.arguments(self.request, self.interpreter, folder / "job.json", journal)
        of_jobs, copy = seen(copy_folder(self.request.build)), seen(copy_with("fuzz", self.request.build / "fuzzer"))
        arguments = [_PLUGIN.get(word, word.replace(of_jobs, copy)) for word in arguments] + ["--asked", seen(pipe)]
        environment = job_command.environment(self.request, self.interpreter)
        handed = words(self._journal.key, self._job)
        self._child = self.interpreter.start(arguments, environment, folder, folder / "log.txt", handed)
        ready = self._wait("ready", _START, self._child)
        if ready is None or ready["entry"] != "ready":
            self.close()
            raise WorkerError(str((ready or {}).get("message", f"it took more than {_START:g} s to start")))
        return self._child

    def _wait(self, kind: str, seconds: float, child: Child, case: str = "") -> Entry | None:
        """Return the next entry of a kind, of the case if one is named; or the one that says that the process ended."""
        own, ends = OwnTime(child), time.monotonic() + seconds
        while True:
            ends += own.lost()
            ended = child.poll()
            for entry in self._journal.new_entries():
                if entry["entry"] == "broken" or (entry["entry"] == kind and case in ("", entry.get("case"))):
                    return entry
            if ended is not None:
                text = own_files.text_of(self._folder / "log.txt")
                return {"entry": "death", "message": death(ended, "launch", child.why), "detail": text[-4000:]}
            if time.monotonic() > ends:
                return None
            time.sleep(_LOOK)
