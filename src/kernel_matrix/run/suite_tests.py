"""Find out which tests a suite has: collect it once in the environment of each toolchain that this machine can run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kernel_matrix.base.waiting import wait_until
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.job.test_names import Key
from kernel_matrix.run import job_command, preflight, suite_command
from kernel_matrix.run.executors import Interpreter, MachineError, Request
from kernel_matrix.run.job_run import JobRun, Preparation
from kernel_matrix.run.schedule import hold
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.vendors.machine import Machine


def collect_tests(
    matrix: Matrix, jobs: Sequence[Job], machine: Machine, settings: Settings, progress: Progress
) -> dict[str, tuple[Key, ...]]:
    """Return the tests of each job that this machine can run, by the job's id.

    A job whose suite cannot be collected is not there: its run says why.

    Raises:
        UserError: another run is at one of the jobs, in the same folder.
    """
    tests: dict[str, tuple[Key, ...]] = {}
    with ExitStack() as stack:
        prepare = Preparation(matrix, machine, settings, progress, stack)
        for job in jobs:
            run = prepare.decided(job)
            prepare.make_environment(run)
            if run.interpreter:
                progress.job(job.id, "collecting its tests")
                keys = _collected(run, run.interpreter, job)
                if keys is not None:
                    tests[job.id] = keys
    return tests


def _collected(run: JobRun, interpreter: Interpreter, job: Job) -> tuple[Key, ...] | None:
    try:
        with ExitStack() as stack:
            hold(job, run.settings, stack)
            return _list_of(run.request, interpreter)
    except MachineError:
        return None  # the run meets it too, and has a record for it


def _list_of(request: Request, interpreter: Interpreter) -> tuple[Key, ...] | None:
    """Return the tests that pytest collects; None if it came to no end."""
    request.folder.mkdir(parents=True, exist_ok=True)
    file, log = request.folder / "tests.json", request.folder / "collect.txt"
    for path in (file, log):
        path.unlink(missing_ok=True)
    preflight.check(request, interpreter)
    command = suite_command.arguments(
        request, interpreter, ("--collect-only", "-q", "--kernel-matrix-tests", interpreter.seen(file))
    )
    child = interpreter.start(command, job_command.environment(request, interpreter), request.root, log)
    ended = wait_until(child.poll, request.matrix.limits.case)
    if ended is None:
        child.kill()
        return None
    return _read(file)


def _read(file: Path) -> tuple[Key, ...] | None:
    try:
        return tuple((str(op), str(name)) for op, name in json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
