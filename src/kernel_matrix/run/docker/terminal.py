"""A person, or a command's output, at a container."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernel_matrix.run.docker.container import ContainerInterpreter
from kernel_matrix.run.docker.engine import answering, remove

_CHUNK = 1 << 16


def attach(interpreter: ContainerInterpreter, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command in a container of its own with this terminal, if it is one; return its exit status."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if terminal:
        environment = {**environment, "TERM": os.environ.get("TERM", "xterm")}
    interpreter.sandbox.prepare()
    container = interpreter.create(command, environment, tty=terminal, stdin_open=terminal)
    try:
        with answering("to run a container"):
            if terminal:
                _converse(container)
            else:
                _show(container)
            return int(container.wait(timeout=None)["StatusCode"])
    finally:
        remove(container)
        interpreter.sandbox.settle()


def _show(container: Any) -> None:
    """Pass on what the container prints."""
    output = container.attach(stream=True, demux=True)
    container.start()
    for out, err in output:
        for stream, data in ((sys.stdout, out), (sys.stderr, err)):
            if data:
                stream.buffer.write(data)
                stream.flush()


def _converse(container: Any) -> None:
    """Carry bytes both ways until the container closes its side."""
    stream = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    connection: socket.socket = stream._sock  # what the SDK gives is a reader around it
    with contextlib.closing(stream), _raw_terminal(container):
        container.start()
        container.resize(*reversed(shutil.get_terminal_size()))
        while True:
            ready, _, _ = select.select([sys.stdin, connection], [], [])
            if connection in ready:
                data = connection.recv(_CHUNK)
                if not data:
                    return
                os.write(sys.stdout.fileno(), data)
            if sys.stdin in ready:
                connection.sendall(os.read(sys.stdin.fileno(), _CHUNK))


@contextlib.contextmanager
def _raw_terminal(container: Any) -> Iterator[None]:
    """Every key goes to the container, and so does the size of the window."""
    before = termios.tcgetattr(sys.stdin)
    handler = signal.signal(signal.SIGWINCH, lambda *_: container.resize(*reversed(shutil.get_terminal_size())))
    try:
        tty.setraw(sys.stdin, termios.TCSADRAIN)  # what was typed already is not lost
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)
