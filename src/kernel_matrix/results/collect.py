"""Result folders -> Records: read all JUnit XML there, name what is broken or refused, and keep the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.results import junit
from kernel_matrix.results import validation as screen
from kernel_matrix.results.junit import BrokenResultError
from kernel_matrix.results.record import Record
from kernel_matrix.results.validation import Asked, Bounds, RefusedError


@dataclass(frozen=True)
class Collected:
    """What was found: the whole files, their records, and one sentence for each file that was not taken.

    ``refused`` says the same by job, for the cases that are missing because of it.
    """

    files: tuple[Path, ...]
    records: tuple[Record, ...]
    broken: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)


def collect(
    folders: Sequence[Path], asked: Mapping[str, Asked] | None = None, bounds: Bounds | None = None
) -> Collected:
    """Read every ``*.xml`` under the folders (or the files themselves).

    With ``asked``, by job, a file is also held against what its job was asked for.

    Raises:
        UserError: a folder does not exist.
    """
    bounds = bounds or Bounds()
    paths: list[Path] = []
    refused: dict[Path, str] = {}
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{folder}: there is no such results folder. Run a session first: ci/nox -s matrix")
        if folder.is_file():
            paths.append(folder)
            continue
        good, bad = screen.find(folder, bounds)
        paths += good
        refused |= dict(bad)
    files, records, broken = [], [], []
    for path in dict.fromkeys(paths):
        try:
            screen.check_content(path, bounds)
            found = junit.read(path)
            if asked is not None:
                screen.check_records(path, found, asked)
        except RefusedError as error:
            refused[path] = str(error)
        except BrokenResultError as error:
            broken.append(f"{error}. Its cases are missing below; fetch or make the file again.")
            refused.setdefault(path, "it is not whole")
        else:
            records += found
            files.append(path)
    sentences = [f"{_plain(path)}: refused: {why}." for path, why in refused.items() if why != "it is not whole"]
    by_job = {_plain(path.stem): why for path, why in refused.items()}
    return Collected(tuple(files), tuple(records), (*broken, *sentences), by_job)


def _plain(text: Path | str) -> str:
    """A name that an attacker chose, as one line of printable characters."""
    return "".join(char if char.isprintable() else "?" for char in str(text))
