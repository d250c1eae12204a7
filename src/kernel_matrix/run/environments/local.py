"""A Python of this machine, and its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.job import own_files
from kernel_matrix.run.environments import variables
from kernel_matrix.run.executors import Child, MachineError

# Wait for a line from the harness. When the harness dies, however it dies, the pipe closes without one: end the job.
# A cluster sends the signals that end a run to every process: this one outlives the harness.
_WATCHDOG = 'trap "" TERM INT HUP; read -r _ || kill -s KILL -- "-$1"'


class LocalChild:
    """A process group of this machine."""

    why = ""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._watchdog = subprocess.Popen(
            ["sh", "-c", _WATCHDOG, "sh", str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The id of the group's first process."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status. When the process has ended, the rest of its group is ended too."""
        if self._process.returncode is not None:
            return self._process.returncode
        # Until the process is reaped, no other process can have its id.
        if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.kill()
        return self._process.returncode

    def kill(self) -> None:
        """End the whole process group."""
        if self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._watchdog.communicate(b"\n")


@dataclass(frozen=True)
class LocalInterpreter:
    """A Python of this machine, by its path."""

    python: Path
    root: Path | None = None  # where the package was built; None: it is tested where it lies
    inherits: tuple[str, ...] = ()  # names of further variables; a few variables of the shell every job gets

    @property
    def facts(self) -> Mapping[str, str]:
        """Return the variables that its processes get from the shell."""
        return variables.facts_of(variables.inherited(self.inherits))

    def seen(self, path: Path) -> str:
        """Return the path: the job sees this machine's folders."""
        return str(path)

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path, handed: str = ""
    ) -> Child:
        """Start Python in a process group of its own, so that its children can be ended with it."""
        inherited = variables.inherited(self.inherits)
        search = [environment.get("PYTHONPATH", ""), inherited.get("PYTHONPATH", "")]
        try:
            with os.fdopen(own_files.opened(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as output:
                process = subprocess.Popen(
                    [self.python, *arguments],
                    cwd=cwd,
                    env={**inherited, **environment, "PYTHONPATH": os.pathsep.join(filter(None, search))},
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise MachineError(f"{self.python} does not start: {error.strerror or error}") from None
        assert process.stdin
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(handed.encode())
        return LocalChild(process)
