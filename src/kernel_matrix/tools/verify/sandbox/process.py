"""A process of the sandbox, as the judge sees it. What counts is bytes that come back, and what Linux says."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from kernel_matrix.job import wire
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcessError
from kernel_matrix.job.processes import anonymous_memory, cpu_seconds, run_delay, scheduled_below, work_below

_LOOK = 0.2  # seconds between two looks at a process that does not answer
_CPU, _IDLE = 60.0, 30.0  # seconds that a call may take


class EndedError(KernelProcessError):
    """The process ended, was ended, or sent what is no message: nothing more can be asked of it."""


class BoxProcess:
    """One process in the sandbox. It has what :class:`kernel_matrix.job.kernel_process.KernelProcess` has."""

    def __init__(self, stream: socket.socket, status: int, processes: int) -> None:
        """``stream`` is the judge's end of the process's socket; ``status`` tells how it ended."""
        self._stream, self._status, self._processes = stream, status, processes
        self._count, self._ended = 0, dict[str, Any]()
        self._patience, self._idle, self._used = _CPU, _IDLE, 0.0
        self._closed = False
        self.calls_with_work_below = 0
        self.pid: int | None = None
        self.held = self._greeting()

    def __enter__(self) -> BoxProcess:
        """Return the process, which ends with the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.end()

    def _greeting(self) -> dict[str, Any]:
        """Return what holds the process, which it says before it knows a candidate, with its id as Linux says it."""
        self._stream.settimeout(60)
        try:
            data, ancillary, _, _ = self._stream.recvmsg(4096, socket.CMSG_SPACE(12))
            for _, kind, raw in ancillary:
                if kind == socket.SCM_CREDENTIALS:
                    self.pid = struct.unpack("3i", raw[:12])[0]
            told = json.loads(data)
        except (OSError, ValueError):
            return {}
        self._stream.setblocking(False)
        return told if isinstance(told, dict) and "fatal" not in told else {}

    def patience(self, cpu: float, idle: float) -> None:
        """Let each call take so much CPU time, with what works below it, and be idle so long."""
        self._patience, self._idle = cpu, idle

    def call(
        self,
        function: str,
        arrays: Mapping[str, Array],
        options: Mapping[str, Any],
        on_stage: Callable[[str], None] = lambda _: None,
    ) -> tuple[Any, dict[str, Array]]:
        """Call ``module:function`` in the process, and return its value and its arrays.

        Raises:
            KernelProcessError: the call failed.
            EndedError: the process ended, or took too long.
        """
        if self._closed:
            raise EndedError("the process has ended", "", "crash")
        stage = "import"
        self._used = self.cpu_seconds()
        try:
            self._count += 1
            wire.send(_Writer(self), {"function": function, "options": options, "call": self._count}, arrays)  # type: ignore[arg-type]
            while True:
                answer, results = wire.receive(self)
                if answer["kind"] != "stage":
                    break
                stage = str(answer["stage"])[:20]
                on_stage(stage)
            if answer.get("call") != self._count:
                raise wire.BrokenMessageError("an answer is no answer to this call")
        except _TooLongError as error:
            self.end()
            raise EndedError(str(error), "", "timeout") from None
        except (OSError, wire.BrokenMessageError, KeyError, TypeError, AttributeError) as error:
            raise self._death(error) from None
        if answer["kind"] == "result":
            return answer["value"], results
        kind = DeviceMissingError if answer.get("unavailable") else KernelProcessError
        raise kind(str(answer.get("text"))[:4000], str(answer.get("detail"))[:8000], str(answer.get("stage") or stage))

    def readinto(self, buffer: memoryview) -> int | None:
        """Fill a part of the buffer and return how much; 0 where the process has ended."""
        self._wait(select.POLLIN)
        return self._stream.recv_into(buffer)

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes."""
        view = memoryview(data).cast("B")
        while view:
            self._wait(select.POLLOUT)
            view = view[self._stream.send(view) :]

    def _wait(self, event: int) -> None:
        """Wait until the socket can be used.

        Raises:
            _TooLongError: the process takes too long, or has too many processes below it.
        """
        poll = select.poll()
        poll.register(self._stream, event)
        seen, idle = dict[int, tuple[float, float]](), 0.0
        while not poll.poll(1000 * _LOOK):
            below = scheduled_below(self.pid) if self.pid else {}
            idle = idle + _LOOK if below == seen else 0.0  # what works or waits for a core has other numbers
            seen = below
            if idle > self._idle:
                raise _TooLongError(f"no answer, and nothing of it has worked for {self._idle:g} s")
            if self.cpu_seconds() - self._used > self._patience:
                raise _TooLongError(f"no answer after {self._patience:g} CPU-seconds")
            if len(below) > 4 * self._processes:
                raise _TooLongError(f"it has more than {self._processes} processes")

    def _death(self, error: Exception) -> EndedError:
        ended = self.end()
        code = ended.get("exit")
        if code is None or "no message" in str(error) or "no answer" in str(error):
            return EndedError(f"its process sent what is no message: {error}", "", "forged")
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and ended.get("cpu", 0) > 60):
            return EndedError("the process used all of its CPU time", "", "timeout")
        how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        return EndedError(f"the process {how}", "", "crash" if code < 0 else "ended")

    def delay(self) -> float:
        """Return the seconds that its threads were ready to run and had no core."""
        return run_delay(self.pid) if self.pid else 0.0

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process and of those below it."""
        return cpu_seconds(self.pid) if self.pid else 0.0

    def memory(self) -> int | None:
        """Return the bytes that the process holds for itself."""
        return anonymous_memory(self.pid) if self.pid else None

    def work_below(self) -> list[int]:
        """Return numbers that change when a process below this one starts, works or ends."""
        return work_below(self.pid) if self.pid else []

    def orphans(self) -> list[str]:
        """Return none: what a candidate leaves behind ends with its namespaces, or with its parent."""
        return []

    def end(self) -> dict[str, Any]:
        """End the process; return what its parent, which is no candidate, says of its end."""
        if self._closed:
            return self._ended
        self._closed = True
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        self._stream.close()
        if not poll.poll(50) and self.pid:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        data = os.read(self._status, 4096) if poll.poll(20_000) else b""
        os.close(self._status)
        with contextlib.suppress(ValueError):
            self._ended = json.loads(data)
        return self._ended

    close = end


class _TooLongError(Exception):
    """The process does not answer."""


class _Writer:
    """The part of a stream that :func:`kernel_matrix.job.wire.send` needs."""

    def __init__(self, process: BoxProcess) -> None:
        self.write = process.write

    def flush(self) -> None:
        """Do nothing: nothing is held back."""
