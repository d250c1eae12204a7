"""A shell or a command in a platform's container, as a job sees it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.run import job_command
from kernel_matrix.run.activated import active
from kernel_matrix.run.container.engine import answering, remove
from kernel_matrix.run.container.executor import Containers
from kernel_matrix.run.container.interpreter import ContainerInterpreter
from kernel_matrix.run.decide import device_for
from kernel_matrix.run.executors import InstallError, MachineError, Request, UnavailableError
from kernel_matrix.vendors.machine import Machine


def request_for(
    matrix: Matrix,
    root: Path,
    build: Path,
    machine: Machine,
    platform: str,
    toolchain: str | None,
    say: Callable[[str], None],
) -> Request:
    """Return the request for a job without cases, of this toolchain or of the platform's first one.

    Raises:
        UserError: there is no such platform, or it has no such toolchain.
    """
    if platform not in matrix.platforms:
        raise unknown("", "platform", platform, matrix.platforms)
    section = matrix.platforms[platform]
    names = [entry.toolchain for entry in section.entries]
    toolchain = toolchain or names[0]
    if toolchain not in names:
        raise unknown("--toolchain", f"toolchain on {platform}", toolchain, names)
    device = device_for(matrix, platform, toolchain, section.targets, machine)
    return Request(root, build, matrix, Job(platform, toolchain, ()), device, say)


@contextmanager
def container_for(request: Request) -> Iterator[ContainerInterpreter]:
    """Prepare the platform's container for one command, and hold the job's lock as long.

    Raises:
        UserError: the container cannot be had, or a run works at the job.
    """
    try:
        with locked(request.build / "jobs" / f"{request.job.id}.lock"), Containers() as prepare:
            yield prepare(request)
    except InstallError as error:
        raise UserError(with_cause(str(error), "build")) from None
    except (UnavailableError, MachineError) as error:
        raise UserError(str(error)) from None
    except BusyError:
        raise UserError(f"{request.folder}: a run is at it. Wait for its end, or give --build FOLDER.") from None


def run_in(request: Request, interpreter: ContainerInterpreter, words: Sequence[str], packages: str = "") -> int:
    """Run a command and return its exit status. Python looks into the folder ``packages`` last."""
    environment = active(interpreter.python, job_command.environment(request, interpreter), interpreter.search_path)
    environment["PYTHONPATH"] = ":".join(filter(None, (environment["PYTHONPATH"], packages)))
    return attach(interpreter, words, environment)


_DETACH_KEYS = "ctrl-^,ctrl-^"  # by default ctrl-p begins them, and a shell wants that key


def attach(interpreter: ContainerInterpreter, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command in a container of its own, with this terminal if it is one; return its exit status.

    Raises:
        UserError: there is a terminal, and no Docker client that can connect it.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    client = shutil.which("docker")
    if is_terminal:
        if client is None:
            raise UserError(
                "a terminal in a container needs Docker's client, and no 'docker' is on PATH. Install it, "
                "or give a command after -- and send its output to a file or a pipe."
            )
        environment = {**environment, "TERM": os.environ.get("TERM", "xterm")}
    interpreter.sandbox.prepare()
    container = interpreter.create(command, environment, tty=is_terminal, stdin_open=is_terminal)
    try:
        if is_terminal and client:
            start = [client, "--host", interpreter.engine.address, "start", "--attach", "--interactive"]
            return subprocess.run([*start, f"--detach-keys={_DETACH_KEYS}", container.id], check=False).returncode
        with answering("to run a container"):
            _show(container)
            return int(container.wait(timeout=None)["StatusCode"])
    finally:
        remove(container)
        interpreter.sandbox.settle()


def _show(container: Any) -> None:
    """Start the container, and pass on what it prints."""
    output = container.attach(stream=True, demux=True)
    container.start()
    for out, err in output:
        for stream, data in ((sys.stdout, out), (sys.stderr, err)):
            if data:
                stream.buffer.write(data)
                stream.flush()
