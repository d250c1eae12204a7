"""The executor ``current``: the interpreter that the harness runs in, for a machine that is provisioned already."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from packaging.requirements import Requirement

from kernel_matrix.base.versions import other_names, satisfies
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import Interpreter, Prepare, Request, UnavailableError


@contextmanager
def executor() -> Iterator[Prepare]:
    """Give every job this interpreter."""
    yield prepare


def _installed(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the distributions of these names that this interpreter has, with their versions."""
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)


def prepare(request: Request) -> Interpreter:
    """Take this interpreter if it has what the toolchain requires.

    Raises:
        UnavailableError: it does not; the text names the requirement.
    """
    for text in request.toolchain.requires:
        found = dict(_installed(other_names(Requirement(text).name)))
        if not found:
            raise UnavailableError(f"{Requirement(text).name} is not installed in this interpreter; it needs {text}")
        if not satisfies([text], found):
            named = ", ".join(f"{name} {version}" for name, version in found.items())
            raise UnavailableError(f"this interpreter has {named}; {request.job.toolchain} needs {text}")
    return LocalInterpreter(Path(sys.executable), inherits=("PYTHONHOME", "PYTHONPATH"))
