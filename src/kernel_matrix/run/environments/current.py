"""The executor ``current``: the interpreter that the harness runs in, for a machine that is provisioned already."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packaging.requirements import Requirement

from kernel_matrix.base.versions import satisfies
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import Interpreter, Prepare, Request, UnavailableError


@contextmanager
def executor() -> Iterator[Prepare]:
    """Give every job this interpreter."""
    yield prepare


def prepare(request: Request) -> Interpreter:
    """Take this interpreter if it has what the toolchain requires.

    Raises:
        UnavailableError: it does not; the text names the requirement.
    """
    for text in request.toolchain.requires:
        name = Requirement(text).name
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise UnavailableError(f"{name} is not installed in this interpreter; it needs {text}") from None
        if not satisfies([text], {name: version}):
            raise UnavailableError(f"this interpreter has {name} {version}; {request.job.toolchain} needs {text}")
    return LocalInterpreter(Path(sys.executable), inherits=("PYTHONHOME", "PYTHONPATH"))
