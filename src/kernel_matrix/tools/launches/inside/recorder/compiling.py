"""Compile in processes of their own, some at a time, each with a limit of time and memory."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_matrix.job.ahead.figures import figures_of_log
from kernel_matrix.job.ahead.nvcc import UnavailableError

from .logs import message_of, shortened, warnings_of
from .settings import Settings, Target
from .unit import Source, Unit

Result = dict[str, Any]
_OF_LAUNCH = {"bind": "launch", "run": "launch", "card": "launch"}  # stages by form; others are of the compiler
_STAGES = {"": "lower", "ttir": "lower", **_OF_LAUNCH}
_WHERE = {
    "": "while it read the kernel",
    "bind": "while its arguments were bound",
    "run": "while the emulator ran it",
    "card": "while the GPU ran it",
    "reference": "while the reference was computed",
}
_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
_LOOK = 0.25  # seconds between two looks at the delays of a process


@dataclass
class Task:
    """One thing that is compiled for one target, with its source."""

    unit: Unit
    target: Target
    source: Source


@dataclass
class Running:
    """A process that compiles, and the folder that it writes to."""

    task: Task
    pid: int
    folder: tempfile.TemporaryDirectory[str]
    began: float = field(default_factory=time.monotonic)
    looked: float = 0.0  # when the delays were last seen
    delays: dict[int, float] = field(default_factory=dict)  # seconds without a core, by process

    def seconds(self) -> float:
        """Return how long it has run, without the time in which it had no core; a tenth of all time at least."""
        now = time.monotonic()
        if now - self.looked > _LOOK:
            self.looked = now
            self.delays |= delays_below(self.pid)
        passed = now - self.began
        return max(passed - sum(self.delays.values()), passed / 10)

    def path(self, name: str) -> Path:
        """Return a file of the process."""
        return Path(self.folder.name, name)

    def read(self, name: str) -> str:
        """Return the content of a file of the process; empty if it has not written it."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def compile_all(
    tasks: Iterable[Task], settings: Settings, retarget: Callable[[Target], None]
) -> Iterator[tuple[Task, Result]]:
    """Yield each task with its result as it ends. ``retarget`` makes the stand-in for a GPU another one."""
    waiting = iter(tasks)
    running: list[Running] = []
    while True:
        while len(running) < settings.jobs and (task := next(waiting, None)) is not None:
            running.append(start(task, settings, retarget))
        if not running:
            return
        time.sleep(0.01)
        for process in list(running):
            if (result := ended(process, settings)) is not None:
                running.remove(process)
                process.folder.cleanup()
                yield process.task, result


def start(task: Task, settings: Settings, retarget: Callable[[Target], None]) -> Running:
    """Start the process of a task."""
    folder = tempfile.TemporaryDirectory(prefix="launch-")
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Running(task, pid, folder)
    status = 70
    try:
        retarget(task.target)
        _be_alone(Path(folder.name), settings.memory)
        _compile(task, Path(folder.name))
        status = 0
    except BaseException as error:
        with contextlib.suppress(BaseException):
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)  # noqa: T201  into the log
    finally:
        os._exit(status)


def _be_alone(folder: Path, memory: int) -> None:
    """Give this process a group, a log, a folder for caches and a limit of memory, and let it die with its parent."""
    os.setsid()
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115  a descriptor
    os.environ["TRITON_CACHE_DIR"] = os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    for name in [name for name in os.environ if name.startswith("TRITON_DUMP")]:
        del os.environ[name]
    with contextlib.suppress(OSError):  # a sandbox without /proc has a limit of its own
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)  # a simulator may have it
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _compile(task: Task, folder: Path) -> None:
    """Compile, and write the figures or the error into the folder."""

    def report(form: str) -> None:
        (folder / "form").write_text(form)

    try:
        result: Result = task.source.compile(report)
    except UnavailableError as error:
        result = {"unavailable": str(error)}
    except BaseException as error:
        cause = f"\n{type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ else ""
        result = {"error": f"{type(error).__name__}: {error}{cause}"}
    sys.stdout.flush()
    (folder / "part").write_text(json.dumps(result))
    (folder / "part").replace(folder / "result")


def ended(process: Running, settings: Settings) -> Result | None:
    """Return the result of a process that has ended, or whose time is over; None while it works."""
    seconds = time.monotonic() - process.began
    over = process.seconds() > settings.seconds
    if over:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it may not have a group of its own yet
            os.kill(process.pid, signal.SIGKILL)
    pid, status, usage = os.wait4(process.pid, 0 if over else os.WNOHANG)
    if not pid:
        return None
    with contextlib.suppress(ProcessLookupError):  # what it has started
        os.killpg(process.pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    cost = {"seconds": round(seconds, 2), "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2)}
    return {**_judged(process, settings, code, over=over), **cost}


def _figures_told(log: str, kept: str) -> dict[str, float]:
    """Return the figures of a log. A compiler that finds its code in a cache logs nothing: a file there has them."""
    figures: dict[str, float] = figures_of_log(log)
    if kept and figures:
        Path(kept).write_text(json.dumps(figures))
    elif kept and Path(kept).exists():
        figures = json.loads(Path(kept).read_text())
    return figures


def _judged(process: Running, settings: Settings, code: int, *, over: bool) -> Result:
    """Return the stage and the error of a process, or the figures of its code."""
    form, log = process.read("form"), process.read("log").strip()
    where = _WHERE.get(form, f"while it made {form}")
    if written := process.read("result"):
        result = json.loads(written)
        if "figures" in result:
            told = _figures_told(log, result.pop("kept", ""))
            warnings = {"warnings": found} if (found := warnings_of(log)) else {}
            return {"stage": "", **result, "figures": {**result["figures"], **told}, **warnings}
        if "unavailable" in result:
            return {"stage": "unavailable", "message": result["unavailable"], "detail": ""}
        stage = _STAGES.get(form, "compile")
        text = f"{message_of(result['error'], log)} ({where})"
        return {"stage": stage, "form": form, "message": text, "detail": shortened(f"{result['error']}\n{log}")}
    if over:
        text = f"no end after {settings.seconds:g} s, in stage {_OF_LAUNCH.get(form, 'compile')}, {where}"
        return {"stage": "timeout", "form": form, "message": text, "detail": shortened(log)}
    ended = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
    last = message_of("", log)
    text = f"the compiler died with {ended}, {where}{f': {last}' if last else ''}"
    return {"stage": "crash", "form": form, "message": text, "detail": shortened(log)}


def delays_below(pid: int) -> dict[int, float]:
    """Return for a process and each below it the seconds that its first thread was ready to run and had no core."""
    delays: dict[int, float] = {}
    folder = Path("/proc", str(pid))
    with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended, or the system counts nothing
        delays[pid] = int((folder / "schedstat").read_text().split()[1]) / 1e9
        for child in (folder / "task" / str(pid) / "children").read_text().split():
            delays |= delays_below(int(child))
    return delays
