"""The names and places of result files below folders: tables, journals and JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.store import validation
from kernel_matrix.store.validation import Bounds

TABLES = ("jobs", "cases", "outputs", "samples")
SUFFIX = ".parquet"
FORMER = "former"  # a folder of it has the runs before the last ones: they are history, and no result of today
JOURNALS, JOURNAL = "journals", ".jsonl"  # of results that were left by a machine that cannot write tables
JOB_NAME, RUN_NAME = "[A-Za-z0-9][A-Za-z0-9._+-]{0,150}", "[0-9a-f]{16}"  # in the names of files
_NAME = re.compile(f"({JOB_NAME})-({RUN_NAME})")
_JOB = re.compile(JOB_NAME)


@dataclass(frozen=True, order=True)
class JobFiles:
    """The files of one run of one job: a folder, and their common name without its ending.

    Without a name they are a packed set: one file for each table, with the rows of many runs.
    """

    folder: Path
    name: str

    @property
    def job(self) -> str:
        """The name of the job; the name of the files if they are not named as tables are."""
        return parts_of(self.name)[0]

    @property
    def run(self) -> str:
        """The identity of the run; empty if the files are not named as the tables are."""
        return parts_of(self.name)[1]

    @property
    def packed(self) -> bool:
        """Say whether these are the files of a packed set."""
        return not self.name

    def path(self, table: str) -> Path:
        """Return the file of one table."""
        return self.folder / f"{table}{SUFFIX}" if self.packed else self.folder / table / f"{self.name}{SUFFIX}"

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of all tables. The table of jobs comes first, and is written last."""
        return tuple(self.path(table) for table in TABLES)


def name_of(job: str, run: str) -> str:
    """Return the common name of the files of one run of a job.

    Raises:
        ValueError: the job's name cannot be the name of a file.
    """
    if not _JOB.fullmatch(job):
        raise ValueError(f"{job[:150]!r} is no name of a job: it has only letters, digits and . _ + -")
    return f"{job}-{run}"


def parts_of(name: str) -> tuple[str, str]:
    """Return the job and the run of a common name; the whole name and no run if files of results are not named so."""
    match = _NAME.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def is_table(path: Path) -> bool:
    """Return whether a path names a file in a folder of tables, or a table of a packed set."""
    return path.suffix == SUFFIX and (path.parent.name in TABLES or path.stem in TABLES)


def files_of(path: Path) -> JobFiles:
    """Return the files of the run, or of the packed set, that one of its files belongs to."""
    if path.parent.name not in TABLES:
        return JobFiles(path.parent, "")
    return JobFiles(path.parent.parent, path.name.removesuffix(SUFFIX))


def find(folder: Path) -> list[JobFiles]:
    """Return the runs of all folders of tables below a folder, or in it, ordered."""
    return sorted({files_of(path) for path in _below(folder, f"*{SUFFIX}") if is_table(path)})


def is_journal(path: Path) -> bool:
    """Return whether a path names a journal that was left in place of tables."""
    return path.suffix == JOURNAL and path.parent.name == JOURNALS


def journals(folder: Path) -> list[Path]:
    """Return the journals that were left in place of tables below a folder, ordered."""
    return sorted(path for path in _below(folder, f"*{JOURNAL}") if is_journal(path))


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files below a folder, without those of former runs."""
    return (path for path in folder.rglob(pattern) if FORMER not in path.relative_to(folder).parts)


def former(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Return the folders with the tables of former runs that lie below folders of results."""
    found = (path for folder in folders if folder.is_dir() for path in folder.rglob(FORMER))
    return tuple(sorted({path for path in found if path.is_dir() and find(path)}))


def result_of(folder: Path, job: str) -> Path | None:
    """Return the file of the latest results of a job in a folder: mostly its table of jobs; None without."""
    return max(results_of(folder, job), key=lambda path: path.stat().st_mtime_ns, default=None)


def results_of(folder: Path, job: str) -> list[Path]:
    """Return the files of all results of a job in a folder: tables of jobs, and journals in their place."""
    tables = {files.path("jobs") for files in of_job(folder, job)}
    return [path for path in (*sorted(tables), *_journals_of(folder, job)) if path.exists()]


def _journals_of(folder: Path, job: str) -> list[Path]:
    paths = sorted((folder / JOURNALS).glob(f"*{JOURNAL}"))
    return [path for path in paths if parts_of(path.stem)[0] == job and parts_of(path.stem)[1]]


def of_job(folder: Path, job: str) -> Iterator[JobFiles]:
    """Yield all runs of a job in one folder of tables."""
    for table in TABLES:
        for path in (folder / table).glob(f"*{SUFFIX}"):
            if (files := files_of(path)).run and files.job == job:
                yield files


def remove(folder: Path, job: str, but: Collection[str] = ()) -> None:
    """Delete the results of a job in one folder, apart from those that have one of the names ``but``."""
    for path in _journals_of(folder, job):
        if path.stem not in but:
            path.unlink(missing_ok=True)
    for files in sorted({files for files in of_job(folder, job) if files.name not in but}):
        for path in files.paths:
            path.unlink(missing_ok=True)


NOT_WHOLE = "it is not whole"  # the reason of a file that has a sentence of its own


@dataclass(frozen=True)
class ResultFiles:
    """The runs in tables, the journals and the JUnit files that are to be read, and the reasons of refused files."""

    junit: tuple[Path, ...]
    journals: tuple[Path, ...]
    runs: tuple[JobFiles, ...]
    refused: Mapping[Path, str]


def demand_folders(folders: Iterable[Path]) -> None:
    """Check that all folders of results are there.

    Raises:
        UserError: one is not.
    """
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{folder}: there is no such results folder. Run the matrix first: `kernel-matrix matrix`")


def find_results(folders: Sequence[Path], bounds: Bounds) -> ResultFiles:
    """Return the result files below the folders; a folder may also be a file of results.

    Raises:
        UserError: a folder does not exist.
    """
    junit: dict[Path, None] = {}
    runs: dict[JobFiles, None] = {}
    left: dict[Path, None] = {}
    refused: dict[Path, str] = {}
    demand_folders(folders)
    for folder in folders:
        if folder.is_dir():
            good, bad = validation.find(folder, [*sorted(_below(folder, "*.xml")), *journals(folder)], bounds)
            refused |= dict(bad)
            junit |= dict.fromkeys(path for path in good if not is_journal(path))
            left |= dict.fromkeys(path for path in good if is_journal(path))
            runs |= dict.fromkeys(find(folder))
        elif is_table(folder):
            runs[files_of(folder)] = None
        elif is_journal(folder):
            left[folder] = None
        else:
            junit[folder] = None
    return ResultFiles(tuple(junit), tuple(left), tuple(runs), refused)


def job_of(path: Path) -> str:
    """Return the job that a file is of, by its name."""
    if is_table(path):
        return files_of(path).job
    return parts_of(path.stem)[0] if is_journal(path) else path.stem


def sentences(refused: Mapping[Path, str]) -> list[str]:
    """Return a sentence for each file that was refused."""
    return [f"{printable(path)}: refused: {reason}." for path, reason in refused.items() if reason != NOT_WHOLE]


def reasons_by_job(refused: Mapping[Path, str]) -> dict[str, str]:
    """Return the first reason of each job: a reason of its tables comes before one of its JUnit XML."""
    reasons: dict[str, str] = {}
    for path, reason in refused.items():
        reasons.setdefault(printable(job_of(path)), reason)
    return reasons


def printable(text: Path | str) -> str:
    """Return a name, which a stranger may have chosen, as one line of printable characters."""
    return "".join(char if char.isprintable() else "?" for char in str(text))
