"""The files of cells that an earlier report wrote, and that say now what they said then.

A database that is kept has, for each such file, a digest of all that the file is made from. Where the digest is the
same, and the file has the size and the times that it was written with, it is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count, filterfalse
from pathlib import Path

from kernel_matrix.report import page_sql, shown_cells
from kernel_matrix.report.document import Document, cell_as_json
from kernel_matrix.report.from_columns import Sources
from kernel_matrix.report.page_cells import path_of
from kernel_matrix.report.shown_cells import Shown
from kernel_matrix.results.columns.sources import stamp_of
from kernel_matrix.results.columns.sql import enter, rows


@dataclass(frozen=True)
class KeptFiles:
    """The files that stay, and what the next report must know of all cells.

    ``shown`` has the cells of the document, and ``fresh`` the numbers of those that were made now. ``stay`` has the
    number of the file that has a cell, by the place of the cell in the document.
    """

    sources: Sources
    folder: Path
    shown: Mapping[int, Shown]
    fresh: Sequence[int]
    stay: Mapping[int, int] = field(default_factory=dict)
    names: Mapping[int, list[str]] = field(default_factory=dict)

    @property
    def free_numbers(self) -> Iterable[int]:
        """The numbers that no file that stays has."""
        return filterfalse({*self.stay.values()}.__contains__, count())

    def enter(self, files: Mapping[int, Sequence[str]]) -> None:
        """Enter the files of this report; ``files`` has the ids of the cells of each, by its number."""
        numbers = sorted(files)
        digests = {shown.cell.id: shown.digest for shown in self.shown.values()}
        columns = {
            "number": numbers,
            "folder": [str(self.folder)] * len(numbers),
            "made_with": [shown_cells.made_with(self.sources)] * len(numbers),
            "cells": [list(files[number]) for number in numbers],
            "digest": [_together(digests[cell] for cell in files[number]) for number in numbers],
            "stamp": [stamp_of(path_of(self.folder, number)) for number in numbers],
        }
        connection = self.sources.judged.connection
        enter(connection, "new_pages", page_sql.PAGES, columns)
        connection.begin()
        connection.execute("DELETE FROM pages").fetchall()
        connection.execute("INSERT INTO pages FROM new_pages").fetchall()
        connection.commit()
        shown_cells.enter_shown(self.sources, {number: self.shown[number] for number in self.fresh})


def kept_files(sources: Sources, document: Document, folder: Path, order: Sequence[int]) -> KeptFiles | None:
    """Return the files that stay, for cells in this order; None if the database is not kept."""
    if not sources.judged.is_kept:
        return None
    fresh = [number for number in order if number not in sources.kept]
    shown = {**sources.kept, **_shown(sources, document, fresh)}
    ids = [document.cells[number].id for number in order]
    place_of = {cell: place for place, cell in enumerate(ids)}
    stay: dict[int, int] = {}
    question = "SELECT number, cells, digest, stamp FROM pages WHERE folder = ? AND made_with = ?"
    known = [str(folder), shown_cells.made_with(sources)]
    for number, cells, digest, stamp in rows(sources.judged.connection, question, known):
        first = place_of.get(cells[0], len(ids))
        of_file = order[first : first + len(cells)]
        are_together = ids[first : first + len(cells)] == cells
        is_same = are_together and digest == _together(shown[cell].digest for cell in of_file)
        if is_same and stamp and stamp == stamp_of(path_of(folder, number)):
            stay |= dict.fromkeys(of_file, number)
    return KeptFiles(sources, folder, shown, fresh, stay, shown_cells.names_of(sources, stay))


def _shown(sources: Sources, document: Document, cells: Sequence[int]) -> dict[int, Shown]:
    """Return cells of the document that were made now, with a digest of all that the page says of each."""
    judged = sources.judged
    page_sql.order_cases(judged.connection, cells)
    of_cases = dict(rows(judged.connection, page_sql.DIGESTS))
    states = shown_cells.states_of(sources, cells)
    facts = {job: f"{sorted(judged.jobs[job].items())}" for cell in cells for job in sources.made[cell].jobs}
    shown = {}
    for number in cells:
        cell, (jobs, measured) = document.cells[number], sources.made[number]
        digest = sha256(cell_as_json(cell))
        digest.update(f"{of_cases[number]} {[facts[job] for job in jobs]}".encode("utf-8", "backslashreplace"))
        shown[number] = Shown(cell, measured, jobs, states[number], digest.hexdigest())
    return shown


def _together(digests: Iterable[str]) -> str:
    return sha256(" ".join(digests).encode()).hexdigest()
