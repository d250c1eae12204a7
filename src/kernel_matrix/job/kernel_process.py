"""The kernel's process, as the process that compares sees it: start it, call it, watch it, and say how it died."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from kernel_matrix.job import own_files, wire
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.processes import (
    adopt_orphans,
    anonymous_memory,
    cpu_seconds,
    memory_limit,
    memory_limit_kills,
    orphans_of,
    run_delay,
    work_below,
)
from kernel_matrix.job.watcher import watcher_of_job

_START = Path(__file__).with_name("start.py")
_PATIENCE = 5.0  # seconds that a process gets to end by itself


class KernelProcessError(Exception):
    """A call did not come back with a result.

    ``stage`` is where it went wrong (``crash`` if the process died), or None where the process did not say;
    ``detail`` is the traceback of the kernel's process, or the end of its output.
    """

    def __init__(self, text: str, detail: str = "", stage: str | None = None) -> None:
        super().__init__(text)
        self.text, self.detail, self.stage = text, detail, stage


class DeviceMissingError(KernelProcessError):
    """The kernel's process says that the device of the case is not here."""


class KernelProcess:
    """One process that runs kernels; it is started by the first call, and again after it died."""

    def __init__(self, suite: Path, log: Path, without: Collection[str] = (), *, adopts: bool = True) -> None:
        """``suite`` is the folder of the modules that calls name; ``log`` gets the output of the process.

        It does not get the environment variables ``without``, which are for this process alone. ``adopts`` says that
        this process has no other children of its own: what the kernel's process leaves behind is found and ended then.
        """
        self._suite, self._log, self._without = suite, ProcessLog(log), without
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = watcher_of_job(log.parent)
        self._count = 0  # of the calls; an answer says to which of them it belongs
        self._kills = 0  # of processes of this container that reached its memory limit, before this one
        self._adopts = adopts
        if adopts:
            adopt_orphans()

    @property
    def pid(self) -> int | None:
        """Return the id of the process, or None where none runs."""
        return self._process.pid if self._process else None

    def call(
        self,
        function: str,
        arrays: Mapping[str, Array],
        options: Mapping[str, Any],
        on_stage: Callable[[str], None],
    ) -> tuple[Any, dict[str, Array]]:
        """Call ``module:function`` of the suite's folder and return its value and its arrays.

        Raises:
            DeviceMissingError: the device is not here.
            KernelProcessError: the call failed, the process died, or the program that watches it found something.
        """
        with self._watched():
            process = self._running()
            stage = "import"
            try:
                self._count += 1
                wire.send(self._calls, {"function": function, "options": options, "call": self._count}, arrays)
                while True:
                    answer, results = wire.receive(self._answers)
                    if answer["kind"] != "stage":
                        break
                    stage = str(answer["stage"])
                    on_stage(stage)
                if answer.get("call") != self._count:
                    raise wire.BrokenMessageError("an answer is no answer to this call")
            except (OSError, wire.BrokenMessageError, KeyError, TypeError) as error:
                raise self._death(process, stage, error) from None
            if answer["kind"] == "result":
                return answer["value"], results
            self._log.set_mark()
            kind = DeviceMissingError if answer.get("unavailable") else KernelProcessError
            raise kind(str(answer.get("text")), str(answer.get("detail")), answer.get("stage") or stage)

    def delay(self) -> float:
        """Return the seconds that the threads of the process were ready to run and had no core, as far as is known."""
        return run_delay(self.pid) if self.pid else 0.0

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process and of those below it, as far as is known."""
        return cpu_seconds(self.pid) if self.pid else 0.0

    def memory(self) -> int | None:
        """Return the bytes that the process holds for itself; None where that is not known."""
        return anonymous_memory(self.pid) if self.pid else None

    def work_below(self) -> list[int]:
        """Return numbers that change when a process below this one starts, works or ends, as far as is known.

        Under a program that watches the kernel nothing is known: the kernel itself is below it.
        """
        return work_below(self.pid) if self.pid and not self._watcher else []

    def orphans(self) -> list[str]:
        """End the processes that the kernel's process left to themselves, and return their names."""
        return orphans_of(self.pid) if self._adopts else []

    def close(self) -> None:
        """End the process, and what it left behind."""
        if (process := self._process) is None:
            return
        self._process = None
        for stream in (self._calls, self._answers):
            with contextlib.suppress(OSError):  # it is dead already
                stream.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._adopts:
            orphans_of(None)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Raise what the program that watches the process, if there is one, found meanwhile."""
        try:
            yield
        except KernelProcessError:
            if self._watcher:
                self.close()  # the fault may have spoilt the device for this process
            raise
        finally:
            if self._watcher and (finding := self._watcher.found()):
                raise KernelProcessError(finding.splitlines()[0].strip("= "), finding, "launch")

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, which is started if none runs."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._kills = memory_limit_kills()
        theirs_in, ours_out = pipe()
        ours_in, theirs_out = pipe()
        watched_by = self._watcher.start() if self._watcher else ()
        self._log.set_mark()
        self._process = subprocess.Popen(
            [*watched_by, sys.executable, str(_START), "--kernel", *map(str, (theirs_in, theirs_out, self._suite))],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=self._log.file,
            stderr=subprocess.STDOUT,
            env={name: value for name, value in os.environ.items() if name not in self._without},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._calls = os.fdopen(ours_out, "wb")
        self._answers = Answers(os.fdopen(ours_in, "rb", buffering=0), self._process)
        return self._process

    def _death(self, process: subprocess.Popen[bytes], stage: str, error: Exception) -> KernelProcessError:
        """Return how the process ended; a process that sent something else than messages is ended first."""
        try:
            status = process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            text = f"the kernel's process sent what is no message in stage {stage}: {error}"
        else:
            end = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
            limit = memory_limit() if memory_limit_kills() > self._kills else None
            why = f": it reached the container's memory limit of {limit / 2**30:g} GiB" if limit else ""
            text = f"the process {end} in stage {stage}{why}"
        output = self._log.tail()
        self.close()
        return KernelProcessError(text, output, "crash")


_PIPE_BYTES = 1 << 20
_LOOK = 0.5  # seconds between two looks at whether a process that does not answer still runs


def pipe() -> tuple[int, int]:
    """Return the ends of a pipe, as large as a user may make one: arrays go through it in few pieces."""
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # beyond what the system grants this user
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


class Answers:
    """The stream of a process's answers. It ends with the process, even if a child of it still holds the pipe."""

    def __init__(self, stream: FileIO, process: subprocess.Popen[bytes]) -> None:
        """``stream`` is the reading end of the pipe into which ``process`` writes."""
        self._stream, self._process = stream, process

    def readinto(self, buffer: memoryview) -> int | None:
        """Fill a part of the buffer and return how much; 0 at the end of the stream or of the process."""
        while not self._is_readable(_LOOK) and self._process.poll() is None:
            pass
        return self._stream.readinto(buffer) if self._is_readable(0) else 0

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def _is_readable(self, seconds: float) -> bool:
        """Return whether there is something to read, or the end, within so many seconds."""
        poll = select.poll()
        poll.register(self._stream, select.POLLIN)
        return bool(poll.poll(1000 * seconds))


class ProcessLog:
    """A file that processes print into, one after the other, and what was printed since the last mark in it.

    It is opened once, before a kernel runs: what a kernel puts in its place later is not looked at.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, which need not be there yet."""
        self.file = own_files.opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        weakref.finalize(self, os.close, self.file)
        self._mark = 0

    def set_mark(self) -> None:
        """Leave out what was printed until now."""
        self._mark = os.fstat(self.file).st_size

    def tail(self) -> str:
        """Return the last lines since the mark."""
        return own_files.last_lines(self.file, self._mark)
