"""Find out which tests a suite has: collect it once in the environment of each toolchain that this machine can run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.job import own_files
from kernel_matrix.job.test_names import IMPORT, Key
from kernel_matrix.run import job_command, preflight, suite_command
from kernel_matrix.run.executors import Interpreter, MachineError, Request
from kernel_matrix.run.job_run import JobRun, Preparation
from kernel_matrix.run.own_time import wait_for_end
from kernel_matrix.run.schedule import hold
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.run.supervise import ending_of
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine

_LIST = "tests.json"
_MANY = 1000  # tests, from which on a sample is offered
_LOG_BYTES = 1 << 14  # of what pytest printed last, in the detail
_INTERNAL = "INTERNALERROR>"  # begins the lines in which pytest says that a plugin has failed
_NOT_LISTED = "its tests could not be listed, so none of them ran"


def collect_tests(
    matrix: Matrix, jobs: Sequence[Job], machine: Machine, settings: Settings, progress: Progress
) -> dict[tuple[str, str], tuple[Key, ...] | Record]:
    """Return the tests of each job that this machine can run, by platform and toolchain.

    Of a job whose tests cannot be listed, it is the record with which all of its cases end.

    Raises:
        UserError: another run is at one of the jobs, in the same folder.
    """
    found: dict[tuple[str, str], tuple[Key, ...] | Record] = {}
    with ExitStack() as stack:
        prepare = Preparation(matrix, machine, settings, progress, stack)
        for job in jobs:
            if (lane := (job.platform, job.toolchain)) not in found:
                run = prepare.decided(job)
                prepare.make_environment(run)
                if run.interpreter:
                    progress.job(job.id, "collecting its tests")
                    found[lane] = tests = _collected(run, run.interpreter)
                    if isinstance(tests, tuple) and len(tests) > _MANY:
                        progress.job(job.id, f"{len(tests):,} tests were collected; --sample 200 runs so many of them")
                elif run.refusal:
                    found[lane] = run.refusal
    return found


def left_by_a_run(build: Path) -> dict[str, tuple[Key, ...]]:
    """Return the lists that collecting has left in the folders of jobs, by job, for a run that goes on."""
    return {path.parent.name: tests for path in sorted(build.glob(f"jobs/*/{_LIST}")) if (tests := _read(path)[0])}


def _collected(run: JobRun, interpreter: Interpreter) -> tuple[Key, ...] | Record:
    try:
        with ExitStack() as stack:
            hold(run.job, run.settings, stack)
            return _list_of(run.request, interpreter)
    except MachineError as error:
        return Record("", "error", stage="machine", message=f"{_NOT_LISTED}: {error}")


def _list_of(request: Request, interpreter: Interpreter) -> tuple[Key, ...] | Record:
    """Return the tests that pytest collects, or why there is no list of them."""
    request.folder.mkdir(parents=True, exist_ok=True)
    file, log = request.folder / _LIST, request.folder / "collect.txt"
    for path in (file, log):
        own_files.remove(path)
    preflight.check(request, interpreter)
    command = suite_command.arguments(
        request, interpreter, ("--collect-only", "-q", "--kernel-matrix-tests", interpreter.seen(file))
    )
    child = interpreter.start(command, job_command.environment(request, interpreter), request.root, log)
    limit = request.matrix.limits.case
    status = wait_for_end(child, limit)
    tests, fault, detail = _read(file)
    if tests:
        return tests
    if not fault:
        fault, detail = _why_none(status, limit, child.why, printed := _end_of(log)), printed
    detail = job_command.portable(request, interpreter, detail)
    return Record("", "error", stage=IMPORT, message=f"{_NOT_LISTED}: {fault}", detail=detail)


def _read(file: Path) -> tuple[tuple[Key, ...], str, str]:
    """Return the tests of the list; or, with its text, the fault that pytest itself has found; or neither."""
    try:
        content = json.loads(own_files.text_of(file))
        if "fault" in content:
            message, detail = content["fault"]
            return (), str(message), str(detail)
        return tuple((str(op), str(name)) for op, name in content["tests"]), "", ""
    except (OSError, ValueError, TypeError, KeyError):
        return (), "", ""


def _why_none(status: int | None, limit: float, why: str, printed: str) -> str:
    """Return why the process of pytest has left no list, and what to do."""
    if status is None:
        return (
            f"pytest has not listed them within {limit:g} s, which is limits.case of matrix.yaml. Raise it, or import "
            "less where a test file is read"
        )
    lines = [line.removeprefix(_INTERNAL).strip() for line in printed.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if "error: " in line.lower()), lines[-1] if lines else "")
    words = f"pytest {ending_of(status)} before it had listed them{f': {why}' if why else ''}"
    if status < 0:
        return f"{words}. Run it again; if the machine has too little memory, with --jobs 1"
    return f"{words}: {last}" if last else words


def _end_of(log: Path) -> str:
    """Return the end of what pytest has printed."""
    try:
        return own_files.content_of(log)[-_LOG_BYTES:].decode("utf-8", errors="replace").strip()
    except OSError:
        return ""
