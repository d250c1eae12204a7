"""The environments that the harness makes, as after ``activate``: a program that a test starts is their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.run.executors import Child, Interpreter


def active(python: str, variables: Mapping[str, str], search_path: str) -> dict[str, str]:
    """Return the variables with which the programs beside a Python are found first, behind them ``search_path``."""
    folder = Path(python).parent
    path = f"{folder}{os.pathsep}{variables.get('PATH') or search_path}"
    return {**variables, "PATH": path, "VIRTUAL_ENV": str(folder.parent)}


@dataclass(frozen=True)
class Activated:
    """An interpreter of this machine whose environment is active in its processes."""

    interpreter: Interpreter

    @property
    def root(self) -> Path | None:
        """Return the copy of the repository in which the package was built."""
        return self.interpreter.root

    @property
    def facts(self) -> Mapping[str, str]:
        """Return the facts of the interpreter."""
        return self.interpreter.facts

    @property
    def python(self) -> Path | str:
        """Return the path of the Python."""
        return self.interpreter.python

    def seen(self, path: Path) -> str:
        """Return the path under which the job finds a file of this machine."""
        return self.interpreter.seen(path)

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path, handed: str = ""
    ) -> Child:
        """Start Python with the environment active."""
        variables = active(str(self.python), environment, os.environ.get("PATH", os.defpath))
        return self.interpreter.start(arguments, variables, cwd, log, handed)
