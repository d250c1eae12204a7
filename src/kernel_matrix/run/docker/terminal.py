"""Connect this terminal with a container, or pass on the output of its command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_matrix.base.errors import UserError
from kernel_matrix.run.docker.engine import answering
from kernel_matrix.run.docker.interpreter import ContainerInterpreter
from kernel_matrix.run.docker.ownership import remove

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
