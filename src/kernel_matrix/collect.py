"""Result folders -> Records: read all JUnit XML there, name what is broken, and keep the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix import junit
from kernel_matrix.errors import UserError
from kernel_matrix.junit import BrokenResultError, Record


@dataclass(frozen=True)
class Collected:
    """What was found: the whole files, their records, and one sentence for each file that is not whole."""

    files: tuple[Path, ...]
    records: tuple[Record, ...]
    broken: tuple[str, ...]


def collect(folders: Sequence[Path]) -> Collected:
    """Read every ``*.xml`` under the folders (or the files themselves).

    Raises:
        UserError: a folder does not exist.
    """
    paths: list[Path] = []
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{folder}: there is no such results folder. Run a session first: ci/nox -s matrix")
        paths += [folder] if folder.is_file() else sorted(folder.rglob("*.xml"))
    files, records, broken = [], [], []
    for path in dict.fromkeys(paths):
        try:
            records += junit.read(path)
            files.append(path)
        except BrokenResultError as error:
            broken.append(f"{error}. Its cases are missing below; fetch or make the file again.")
    return Collected(tuple(files), tuple(records), tuple(broken))
