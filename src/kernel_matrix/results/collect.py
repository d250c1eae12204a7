"""Result folders -> Records: read all JUnit XML below them, each with the samples beside it.

Every file that is broken or refused is named, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.results import junit, samples, validation
from kernel_matrix.results.foreign import foreign_records, printable
from kernel_matrix.results.junit import BrokenResultError
from kernel_matrix.results.record import Record
from kernel_matrix.results.validation import Asked, Bounds, RefusedError

_BROKEN = "it is not whole"


@dataclass(frozen=True)
class Collected:
    """The files that were taken, their records, and one sentence for each file that was not taken.

    ``refused`` has the reasons of the latter by job, for the cases that are missing because of it. ``foreign`` has
    those of the records that another tool has written, by file.
    """

    files: tuple[Path, ...]
    records: tuple[Record, ...]
    broken: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    foreign: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)


def collect(
    folders: Sequence[Path], asked: Mapping[str, Asked] | None = None, bounds: Bounds | None = None
) -> Collected:
    """Read every ``*.xml`` below the folders, or the files themselves.

    With ``asked``, by job, a file is also compared with what its job was asked for. Where the samples beside a file
    cannot be used, its records count without them, and a sentence says so.

    Raises:
        UserError: a folder does not exist.
    """
    bounds = bounds or Bounds()
    refused: dict[Path, str] = {}
    paths = dict.fromkeys(path for folder in folders for path in _result_files(folder, bounds, refused))
    files, records, foreign = [], [], {}
    broken: list[str] = []
    for path in paths:
        try:
            of_file = _read(path, asked, bounds)
            records += _with_samples(path, of_file, bounds, broken)
            files.append(path)
            if of_others := foreign_records(of_file):
                foreign[printable(path)] = of_others
        except RefusedError as error:
            refused[path] = str(error)
        except BrokenResultError as error:
            broken.append(f"{error}. Its cases are missing below; fetch or make the file again.")
            refused.setdefault(path, _BROKEN)
    sentences = [f"{printable(path)}: refused: {reason}." for path, reason in refused.items() if reason != _BROKEN]
    by_job = {printable(path.stem): reason for path, reason in refused.items()}
    return Collected(tuple(files), tuple(records), (*broken, *sentences), by_job, foreign)


def _result_files(folder: Path, bounds: Bounds, refused: dict[Path, str]) -> Iterator[Path]:
    """Yield the files to read, and add those that are refused."""
    if not folder.exists():
        raise UserError(f"{folder}: there is no such results folder. Run the matrix first: `kernel-matrix matrix`")
    if folder.is_file():
        yield folder
        return
    good, bad = validation.find(folder, bounds)
    refused |= dict(bad)
    yield from good


def _with_samples(path: Path, records: list[Record], bounds: Bounds, broken: list[str]) -> list[Record]:
    """Return the records with the samples beside their file, if there are any that can be used."""
    file = samples.beside(path)
    if not file.exists() and not file.is_symlink():
        return records
    try:
        return samples.read(file, records, bounds)
    except RefusedError as error:
        broken.append(f"{printable(file)}: refused: {error}. Its job's results count without samples.")
        return records


def _read(path: Path, asked: Mapping[str, Asked] | None, bounds: Bounds) -> list[Record]:
    validation.check_content(path, bounds)
    records = junit.read(path)
    validation.check_figures(records)
    if asked is not None:
        validation.check_records(path, records, asked)
    return records
