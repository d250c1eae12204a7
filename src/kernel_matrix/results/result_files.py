"""Find the result files below folders, and say which of them were not taken, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.results import validation
from kernel_matrix.results.foreign import printable
from kernel_matrix.results.tables import names
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import Bounds

NOT_WHOLE = "it is not whole"  # the reason of a file that has a sentence of its own


@dataclass(frozen=True)
class ResultFiles:
    """The runs in tables, the journals and the JUnit files that are to be read, and the reasons of refused files."""

    junit: tuple[Path, ...]
    journals: tuple[Path, ...]
    runs: tuple[JobFiles, ...]
    refused: Mapping[Path, str]


def find(folders: Sequence[Path], bounds: Bounds) -> ResultFiles:
    """Return the result files below the folders; a folder may also be a file of results.

    Raises:
        UserError: a folder does not exist.
    """
    junit: dict[Path, None] = {}
    runs: dict[JobFiles, None] = {}
    journals: dict[Path, None] = {}
    refused: dict[Path, str] = {}
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{folder}: there is no such results folder. Run the matrix first: `kernel-matrix matrix`")
        if folder.is_dir():
            good, bad = validation.find(folder, [*sorted(folder.rglob("*.xml")), *names.journals(folder)], bounds)
            refused |= dict(bad)
            junit |= dict.fromkeys(path for path in good if not names.is_journal(path))
            journals |= dict.fromkeys(path for path in good if names.is_journal(path))
            runs |= dict.fromkeys(names.find(folder))
        elif names.is_table(folder):
            runs[names.files_of(folder)] = None
        elif names.is_journal(folder):
            journals[folder] = None
        else:
            junit[folder] = None
    return ResultFiles(tuple(junit), tuple(journals), tuple(runs), refused)


def job_of(path: Path) -> str:
    """Return the job that a file is of, by its name."""
    if names.is_table(path):
        return names.files_of(path).job
    return names.parts_of(path.stem)[0] if names.is_journal(path) else path.stem


def sentences(refused: Mapping[Path, str]) -> list[str]:
    """Return a sentence for each file that was refused."""
    return [f"{printable(path)}: refused: {reason}." for path, reason in refused.items() if reason != NOT_WHOLE]


def reasons_by_job(refused: Mapping[Path, str]) -> dict[str, str]:
    """Return the first reason of each job: that of a JUnit file comes before that of its tables."""
    reasons: dict[str, str] = {}
    for path, reason in refused.items():
        reasons.setdefault(printable(job_of(path)), reason)
    return reasons
