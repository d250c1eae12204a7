"""The run that was submitted last: its file in the build folder, which every later call and the report's job read."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from kernel_matrix.base.errors import UserError, first_fault
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.models import Strict
from kernel_matrix.config.model import Ask

FOLDER = "cluster"  # in the build folder
_FILE = "run.json"
_INTERRUPTED = 130  # the status of a command that somebody has interrupted


class Batch(Strict):
    """Rows that ask the cluster for the same, and are submitted in one call."""

    rows: tuple[str, ...]
    target: str = ""  # whose device they ask for; none of rows that any node takes
    device: str = ""  # the vendor of that device
    ask: Ask
    minutes: int
    measured: bool = False  # whether the minutes come from measured times


class ClusterRun(Strict):
    """Rows and their report, submitted together.

    The names of its jobs follow from ``id``, so that they are found also where the call that submitted them has died.
    """

    engine: str
    id: str = Field(pattern=r"^[0-9a-f]{8}$")
    created: float  # seconds since 1970
    user: int = Field(default_factory=os.getuid)  # who has submitted it: nobody else can end its jobs
    plan: str  # the SHA-256 of the row plan
    queue_minutes: float
    batches: tuple[Batch, ...]
    row_commands: Mapping[str, str]
    jobs: tuple[str, ...]  # the ids of the matrix's jobs that the rows have
    report_commands: tuple[str, ...]
    root: str  # where the commands are typed
    folder: str  # of this file, of the plan, of scripts and logs
    folders: tuple[str, ...] = ()  # what a row sees that runs inside of an image
    setup: str = ""
    disk: str = ""  # a folder of each node's own disk, where nodes do not see the root
    ended: Mapping[str, str] = Field(default_factory=dict)  # rows that were cancelled because they would never start

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of all batches."""
        return tuple(row for batch in self.batches for row in batch.rows)

    @property
    def is_mine(self) -> bool:
        """Tell whether the user of this process has submitted it."""
        return self.user == os.getuid()

    @property
    def whose(self) -> str:
        """The name of who has submitted it."""
        try:
            return pwd.getpwuid(self.user).pw_name
        except KeyError:
            return f"user {self.user}"


def plan_of(build: Path) -> Path:
    """Return the file of the plan whose rows were submitted last. It is written once, as the run is made."""
    return folder_of(build) / "plan.json"


def status_of_report(run: ClusterRun) -> Path:
    """Return the file with the exit status of the report, which is there when a run has ended."""
    return Path(run.folder) / "status"


def mark_interrupted(run: ClusterRun) -> None:
    """Write that a run was cancelled, or is not submitted whole. What is left of it is no run to go on with."""
    status_of_report(run).write_text(f"{_INTERRUPTED}\n", encoding="ascii")


def is_interrupted(run: ClusterRun) -> bool:
    """Return whether a run was cancelled, or was not submitted whole."""
    try:
        return status_of_report(run).read_text(encoding="ascii").strip() == str(_INTERRUPTED)
    except OSError:
        return False


def going_on(build: Path) -> ClusterRun | None:
    """Return the run that was submitted last from this build folder, as long as its report has not ended.

    The cluster is not asked: whoever only looks need not be where it can be.
    """
    try:
        run = read(build)
    except UserError:
        return None
    return run if run and not status_of_report(run).exists() else None


def folder_of(build: Path) -> Path:
    """Return the folder of the run that was submitted last: its file, the plan, scripts and logs."""
    return build / FOLDER


def read(build: Path) -> ClusterRun | None:
    """Return the run that was submitted last from this build folder, if there is one.

    Raises:
        UserError: its file cannot be used.
    """
    path = folder_of(build) / _FILE
    try:
        return ClusterRun.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}.") from None
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}. Remove the file, if none of its jobs runs.") from None


def write(build: Path, run: ClusterRun) -> None:
    """Write the file of a run."""
    folder_of(build).mkdir(parents=True, exist_ok=True)
    write_atomically(folder_of(build) / _FILE, run.model_dump_json(indent=1) + "\n")
