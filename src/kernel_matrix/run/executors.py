"""The protocols of the executors of jobs.

An executor is a module with a context manager ``executor``. That yields a function, which turns the :class:`Request` of
each job into an :class:`Interpreter` in which the toolchain is installed. It raises :class:`UnavailableError` where
this machine cannot have the toolchain (nobody's fault), and :class:`InstallError` where it should have worked. A run
starts the job's processes through the interpreter, and knows nothing else of the executor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from kernel_matrix.config.locks import lock_file
from kernel_matrix.config.model import Matrix, Platform, Toolchain
from kernel_matrix.config.model.limits import Limits
from kernel_matrix.config.plan import Job
from kernel_matrix.job.test_names import Key
from kernel_matrix.vendors.builds import CPU, OWN
from kernel_matrix.vendors.registry import vendor_named
from kernel_matrix.vendors.vendor import Device, Vendor


class UnavailableError(Exception):
    """The environment cannot be had here; the text says why."""


class InstallError(Exception):
    """Making the environment failed; the text is the installer's own."""


class MachineError(Exception):
    """The machine failed, and not the process on it; the text says what failed."""


@dataclass(frozen=True)
class Request:
    """A job and what it needs of its environment; ``device`` is None where the job can only compile.

    ``tests`` are all that the job's suite has, where its tests are the cases and were listed before the run;
    ``canaries`` says whether the comparisons of such a suite are asked which faults they see. ``seconds`` is how long
    the run gives each job at most.
    """

    root: Path
    build: Path
    matrix: Matrix
    job: Job
    device: Device | None
    say: Callable[[str], None]
    tests: tuple[Key, ...] = ()
    canaries: bool = False
    seconds: float = math.inf

    @property
    def limits(self) -> Limits:
        """The limits of matrix.yaml, and of this run where they are shorter. What jobs read has only the first."""
        limits = self.matrix.limits
        shorter = {name: min(getattr(limits, name), self.seconds) for name in ("case", "job")}
        return limits.model_copy(update=shorter)

    @property
    def platform(self) -> Platform:
        """The job's platform."""
        return self.matrix.platforms[self.job.platform]

    @property
    def vendor(self) -> Vendor:
        """The vendor of the platform's devices; where one is emulated, tensors are on the CPU."""
        vendor = vendor_named(self.platform.device)
        return replace(vendor, framework_device="cpu") if self.device and self.device.emulated else vendor

    @property
    def toolchain(self) -> Toolchain:
        """The job's toolchain."""
        return self.matrix.toolchains[self.job.toolchain]

    @property
    def kind(self) -> str:
        """The kind of builds in its environment: the vendor's where its GPU is, and else the CPU's."""
        return vendor_named(self.platform.device).build if self.gpu else CPU

    @property
    def lock(self) -> Path:
        """The lock file of the toolchain on the platform, for the kind of builds that this machine needs.

        Raises:
            UnavailableError: no lock can have the vendor's builds.
            InstallError: there is no such lock.
        """
        named = self.matrix.lock_of(self.job.platform, self.job.toolchain)
        if self.kind == OWN:
            text = (
                f"no index has the builds for {self.vendor.title}. In an environment that has them: --executor current"
            )
            raise UnavailableError(text)
        path = lock_file(self.root, named, self.kind)
        if not path.is_file():
            raise InstallError(f"{path.name} is not there. Make it: `kernel-matrix lock {Path(named).stem}`")
        return path

    @property
    def folder(self) -> Path:
        """The job's folder, the only one that it may write to."""
        return self.build / "jobs" / self.job.id

    @property
    def gpu(self) -> bool:
        """Return whether the job runs on a GPU."""
        return self.device is not None and not self.device.emulated and vendor_named(self.device.vendor).gpu


class Child(Protocol):
    """A process of a job."""

    @property
    def why(self) -> str:
        """The cause of the end, beyond the exit status; empty if it is not known."""

    @property
    def pid(self) -> int | None:
        """The id of the process on this machine; None where it has none that is known."""

    def poll(self) -> int | None:
        """Return the exit status (negative: the signal that ended it), or None while the process runs.

        Raises:
            MachineError: the process was lost, and nobody knows how it would have ended.
        """

    def kill(self) -> None:
        """End the process and everything that it started, and wait until that is so.

        Raises:
            MachineError: that cannot be done.
        """


class Interpreter(Protocol):
    """A Python in which the toolchain imports."""

    @property
    def python(self) -> Path | str:
        """The path of the Python, as the job sees it."""

    @property
    def root(self) -> Path | None:
        """The copy of the repository in which the package was built; None where nothing is built."""

    @property
    def facts(self) -> Mapping[str, str]:
        """The facts of this Python for the job's results."""

    def seen(self, path: Path) -> str:
        """Return the path under which the job finds a file of this machine."""

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path, handed: str = ""
    ) -> Child:
        """Start ``python ARGUMENTS`` with the variables added, its output appended to ``log``.

        ``handed`` is its standard input: for :mod:`kernel_matrix.job.handed` in that process, and for nobody else.

        Raises:
            MachineError: it does not start.
        """


Prepare = Callable[[Request], Interpreter]
