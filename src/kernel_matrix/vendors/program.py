"""A program that toolchains start, such as a compiler: where to look for it, and what to do without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from kernel_matrix.vendors.finding import Finding, Status
from kernel_matrix.vendors.system import ask


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program by the name that matrix.yaml and probes have for it.

    names: Other names that it may have on PATH.
    install: What to do where it is not here.
    reinstall: What to do where it is here and does not work; as ``install`` if empty.
    variable: The environment variable that names another program in its place, such as ``CXX``.
    homes: Environment variables that name a folder with the program in its ``bin``.
    folder: That folder where no variable names one.
    wheels: Where wheels bring it, as a pattern below an environment's packages.
    version: A word of the line of ``--version`` that is worth showing; the first line if empty.
    trial: Try the program at this path and return what is wrong with it; empty if nothing is.
    expected: Whether every machine is expected to have it, so that its lack is a fault.
    """

    name: str
    install: str
    names: tuple[str, ...] = ()
    reinstall: str = ""
    variable: str = ""
    homes: tuple[str, ...] = ()
    folder: str = ""
    wheels: str = ""
    version: str = ""
    trial: Callable[[str], str] | None = None
    expected: bool = False

    @property
    def command(self) -> str:
        """Return the name of the program to look for on PATH."""
        return os.environ.get(self.variable) or self.name

    @property
    def home(self) -> str:
        """Return the folder whose ``bin`` comes after PATH; empty if there is none."""
        return next((value for name in self.homes if (value := os.environ.get(name))), self.folder)

    def find(self) -> str | None:
        """Return the program's path on this machine."""
        path = next((path for name in (self.command, *self.names) if (path := shutil.which(name))), None)
        return path or (shutil.which(self.command, path=f"{self.home}/bin") if self.home else None)

    def examine(self, purpose: str) -> Finding:
        """Look whether this machine has the program and it works; ``purpose`` says what is impossible without it."""
        path = self.find()
        if path is None:
            where = f"neither on PATH nor in {self.homes[0]}" if self.homes else "not on PATH"
            status: Status = "broken" if self.expected else "absent"
            return Finding(self.name, status, f"{self.command} is {where}: {purpose}", self.install)
        answer = ask([path, "--version"])
        if answer.fault:
            fault = f"it does not start: {answer.fault}"
        else:
            fault = self.trial(path) if self.trial else ""
        if fault:
            return Finding(self.name, "broken", f"{path}: {fault}", self.reinstall or self.install)
        return Finding(self.name, "good", f"{path}: {answer.line_with(self.version)}")
