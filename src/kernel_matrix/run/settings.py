"""The settings of a run, the executor that they choose, and the protocol of the run's progress."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from platform import python_version
from typing import Protocol

from packaging.specifiers import SpecifierSet

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.installation import lacking
from kernel_matrix.config.file_readers import CONTAINER
from kernel_matrix.config.model import Platform
from kernel_matrix.job.test_names import Key
from kernel_matrix.run.activated import Activated
from kernel_matrix.run.executors import Interpreter, Prepare, Request, UnavailableError
from kernel_matrix.store.record import Record

EXECUTORS = (CONTAINER, "venv", "current")
AUTO = "auto"  # a container where an engine answers, else an environment


class Progress(Protocol):
    """The protocol of what shows the progress of jobs."""

    def job(self, job: str, text: str) -> None:
        """Take what a job does now."""

    def case(self, job: str, outcome: str) -> None:
        """Take the outcome of a case of the job."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run: folders, executor, and the number of jobs at a time."""

    root: Path
    build: Path
    executor: str = AUTO
    workers: int = 1
    resume: bool = False
    excluded: bool = False  # try the excluded cases too
    canaries: bool = True  # ask a suite's own comparisons which faults they see
    seconds: float = math.inf  # of each job, and of each of its cases; the limits of matrix.yaml hold too
    gathered: bool = False  # a report gathers the results and makes their tables: few results stay a journal
    # The tests of a suite by platform and toolchain, or the end of all cases of one whose tests could not be listed.
    tests: Mapping[tuple[str, str], tuple[Key, ...] | Record] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        """Return the folder of the result files."""
        return self.build / "results"


def load_executor(name: str) -> AbstractContextManager[Prepare]:
    """Return the executor of that name, one of ``EXECUTORS``, for one run. Only its own module is imported."""
    if name == CONTAINER:
        from kernel_matrix.run.container.executor import Containers

        return Containers()
    if name == "venv":
        from kernel_matrix.run.environments import venv

        return _with_this_python(venv.executor())
    from kernel_matrix.run.environments import current

    return current.executor()


@contextmanager
def _with_this_python(executor: AbstractContextManager[Prepare]) -> Iterator[Prepare]:
    """Give an executor whose environments have the Python of this process, and are active in their jobs."""
    with executor as prepare:

        def prepared(request: Request) -> Interpreter:
            asked, present = request.toolchain.python, python_version()
            if not SpecifierSet(asked).contains(present, prereleases=True):
                raise UnavailableError(
                    f"its packages are for Python {asked}, and this is {present}: take another Python, or a container"
                )
            return Activated(prepare(request))

        yield prepared


def choose_executor(asked: str, platform: Platform) -> tuple[str, str]:
    """Return the executor for a platform's jobs, and the reason; one that was asked for by name is never replaced.

    Raises:
        UserError: containers were asked for, and no engine answers.
    """
    if asked not in (AUTO, CONTAINER):
        return asked, "as asked"
    if asked == AUTO and platform.container is None:
        return "venv", "matrix.yaml names no container for it"
    try:
        from kernel_matrix.run.container.engine import address  # its library is an extra

        return CONTAINER, f"a Docker engine answers at {address(start=asked == CONTAINER)}"
    except (UnavailableError, ModuleNotFoundError) as error:
        is_lacking = isinstance(error, ModuleNotFoundError)
        if asked == AUTO:  # no command: who wants no containers lacks nothing
            return "venv", f"no containers: {'the extra containers is not installed' if is_lacking else error}"
        reason = lacking(error) if isinstance(error, ModuleNotFoundError) else str(error)
        raise UserError(
            "Nothing ran, and earlier results stay. Start an engine, or take --executor venv. "
            f"--executor {asked}: {reason}"
        ) from None
