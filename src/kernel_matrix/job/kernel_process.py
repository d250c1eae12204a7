"""The kernel's process, as the process that compares sees it: start it, call it, watch it, and say how it died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel_matrix.job import wire
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.processes import adopt_orphans, orphans_of

_START = Path(__file__).with_name("start.py")
_LOG_TAIL = 60  # lines of a dead process's output that go into its case
_LOG_READ = 1 << 16  # bytes of the log's end in which these lines are looked for
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

    def __init__(self, suite: Path, log: Path) -> None:
        """``suite`` is the folder of the modules that calls name; ``log`` gets the output of the process."""
        self._suite, self._log = suite, log
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
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
            KernelProcessError: the call failed, or the process died.
        """
        process = self._running()
        stage = "import"
        try:
            wire.send(self._calls, {"function": function, "options": options}, arrays)
            while True:
                answer, results = wire.receive(self._answers)
                if answer["kind"] != "stage":
                    break
                stage = str(answer["stage"])
                on_stage(stage)
        except (OSError, wire.BrokenMessageError, KeyError, TypeError) as error:
            raise self._death(process, stage, error) from None
        if answer["kind"] == "result":
            return answer["value"], results
        self._flush()
        kind = DeviceMissingError if answer.get("unavailable") else KernelProcessError
        raise kind(str(answer.get("text")), str(answer.get("detail")), answer.get("stage") or stage)

    def orphans(self) -> list[str]:
        """End the processes that the kernel's process left to themselves, and return their names."""
        return orphans_of(self.pid)

    def close(self) -> None:
        """End the process, and what it left behind."""
        if (process := self._process) is None:
            return
        self._process = None
        for stream in (self._calls, self._answers):
            try:
                stream.close()
            except OSError:  # it is dead already
                pass
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        orphans_of(None)

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, which is started if none runs."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, str(_START), "--kernel", str(theirs_in), str(theirs_out), str(self._suite)],
                pass_fds=(theirs_in, theirs_out),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._calls = os.fdopen(ours_out, "wb")
        self._answers = os.fdopen(ours_in, "rb", buffering=0)
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
            text = f"the kernel's process {end} in stage {stage}"
        output = self._output()
        self.close()
        return KernelProcessError(text, output, "crash")

    def _output(self) -> str:
        """Return the last lines that the process has printed."""
        with self._log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - _LOG_READ))
            lines = log.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL:])

    def _flush(self) -> None:
        """Let the next death's output begin after what was printed until now."""
        self._log_start = self._log.stat().st_size
