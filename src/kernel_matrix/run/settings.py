"""The settings of a run, and the protocol of its progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernel_matrix.run import executors


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
    executor: str = executors.AUTO
    workers: int = 1
    resume: bool = False
    excluded: bool = False  # try the excluded cases too

    @property
    def results(self) -> Path:
        """Return the folder of the result files."""
        return self.build / "results"
