"""Where a job's processes run. An executor is a module of this package with a function ``prepare``.

``prepare(request)`` gives an :class:`Interpreter` in which the toolchain is installed, or raises
:class:`UnavailableError` (this machine cannot have it: no fault of anyone's) or :class:`InstallError` (it should have
worked). ``run`` starts the job's processes through the interpreter and never learns what is behind it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernel_matrix.errors import UserError, did_you_mean
from kernel_matrix.matrix import Toolchain

NAMES = ("venv", "current")


class UnavailableError(Exception):
    """The environment cannot be had here; the text says why."""


class InstallError(Exception):
    """Making the environment failed; the text is the installer's own."""


@dataclass(frozen=True)
class Request:
    """What a job needs of its environment."""

    root: Path
    build: Path
    toolchain_name: str
    toolchain: Toolchain
    gpu: bool
    say: Callable[[str], None]


class Child(Protocol):
    """A process of a job."""

    def poll(self) -> int | None:
        """Its exit status (negative: the signal that ended it), or None while it runs."""

    def kill(self) -> None:
        """End it and everything that it started, and wait until that is so."""


class Interpreter(Protocol):
    """A Python in which the toolchain imports."""

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path) -> Child:
        """Start ``python ARGUMENTS`` with the variables added, its output appended to ``log``."""


Prepare = Callable[[Request], Interpreter]


def load(name: str) -> Prepare:
    """The executor of that name.

    Raises:
        UserError: there is none.
    """
    if name not in NAMES:
        raise UserError(f"--executor {name}: there is no such executor.{did_you_mean(name, NAMES)}")
    prepare: Prepare = importlib.import_module(f"{__name__}.{name}").prepare
    return prepare


class LocalChild:
    """A process group of this machine."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@dataclass(frozen=True)
class LocalInterpreter:
    """A Python of this machine, by its path."""

    python: Path

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path) -> Child:
        """Start it in a process group of its own, so that its children can be ended with it."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [self.python, *arguments],
                cwd=cwd,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return LocalChild(process)
