"""The engines that this project itself submits rows to. An engine is a module of this package that has ``ENGINE``."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.engines.state import Batch, ClusterRun
from kernel_matrix.ci.placing import Machines
from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.job_status import JobStatus

REPORT = "report"  # the name of the job that makes the report, in place of a row's


class AwayError(UserError):
    """The engine does not answer at this moment; its jobs may go on."""


@dataclass(frozen=True)
class Fitted:
    """Batches as the cluster can have them: what was changed, and what it lacks, each in a sentence."""

    batches: tuple[Batch, ...]
    changed: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


class Engine(Protocol):
    """An engine that runs rows as jobs. A job has a name of its own, by which it is found again."""

    def machines(self, matrix: Matrix) -> Machines:
        """Return the machines that rows may go to."""

    def fit(self, batches: Sequence[Batch]) -> Fitted:
        """Return the batches as the cluster can have them. It is asked once.

        Raises:
            AwayError: it does not answer.
            UserError: its programs are not here.
        """

    def script(self, run: ClusterRun) -> str:
        """Return the shell script that submits a run."""

    def submit(self, run: ClusterRun) -> None:
        """Submit a run: its batches, and the report after them.

        Raises:
            UserError: something was refused. Then nothing of the run is left in the cluster.
        """

    def poll(self, run: ClusterRun) -> list[JobStatus]:
        """Return the status of each row, and of the report. The cluster is asked once or twice, however many there are.

        Raises:
            AwayError: it does not answer.
        """

    def attend(self, run: ClusterRun, statuses: Sequence[JobStatus]) -> None:
        """Do what the jobs that run need of the process that follows them. It is asked at each look.

        Raises:
            AwayError: it does not answer.
        """

    def cancel(self, run: ClusterRun, rows: Collection[str] | None = None) -> None:
        """Cancel the jobs of some rows, or of the report; by default all of the run.

        Raises:
            AwayError: it does not answer.
        """

    def never_starts(self, why: str) -> bool:
        """Return whether a job that waits for this reason waits for ever."""

    def log(self, run: ClusterRun, row: str) -> Path:
        """Return the file of what a row's job prints."""


def engine_named(name: str) -> Engine:
    """Return one of the engines ``ENGINES``."""
    engine: Engine = importlib.import_module(f"{__name__}.{name}").ENGINE
    return engine
