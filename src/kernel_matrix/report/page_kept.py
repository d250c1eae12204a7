"""The files of cells that an earlier report wrote, and that say now what they said then.

A database that is kept has, for each such file, a digest of all that the file is made from. Where the digest is the
same, and the file has the size and the times that it was written with, it is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import count, filterfalse
from pathlib import Path

import numpy as np

from kernel_matrix.report import page_sql
from kernel_matrix.report.document import Document
from kernel_matrix.report.from_columns import Sources
from kernel_matrix.report.page_cells import path_of
from kernel_matrix.report.page_overview import LETTERS
from kernel_matrix.results.columns.sources import stamp_of
from kernel_matrix.results.columns.sql import enter, rows
from kernel_matrix.results.compare import STATES

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class KeptFiles:
    """The files that stay, and the digests of all cells for the next report.

    ``stay`` has the number of the file that has a cell, by the place of the cell in the document. ``states`` has the
    names of the cases of such a cell, and a letter for the state of each.
    """

    sources: Sources
    folder: Path
    made_with: str
    digests: Mapping[str, str] = field(default_factory=dict)  # by the id of the cell
    stay: Mapping[int, int] = field(default_factory=dict)
    states: Mapping[int, tuple[list[str], str]] = field(default_factory=dict)

    @property
    def free_numbers(self) -> Iterable[int]:
        """The numbers that no file that stays has."""
        return filterfalse({*self.stay.values()}.__contains__, count())

    def enter(self, files: Mapping[int, Sequence[str]]) -> None:
        """Enter the files of this report; ``files`` has the ids of the cells of each, by its number."""
        numbers = sorted(files)
        columns = {
            "number": numbers,
            "folder": [str(self.folder)] * len(numbers),
            "made_with": [self.made_with] * len(numbers),
            "cells": [list(files[number]) for number in numbers],
            "digest": [_together(self.digests[cell] for cell in files[number]) for number in numbers],
            "stamp": [stamp_of(path_of(self.folder, number)) for number in numbers],
        }
        connection = self.sources.judged.connection
        enter(connection, "new_pages", page_sql.PAGES, columns)
        connection.begin()
        connection.execute("DELETE FROM pages").fetchall()
        connection.execute("INSERT INTO pages FROM new_pages").fetchall()
        connection.commit()


def kept_files(sources: Sources, document: Document, folder: Path, order: Sequence[int]) -> KeptFiles | None:
    """Return the files that stay, for cells in this order; None if the database is not kept."""
    if not sources.judged.is_kept:
        return None
    page_sql.order_cases(sources.judged.connection, order)
    digests, made_with = _digests(sources, document), _made_with(sources)
    ids = [document.cells[number].id for number in order]
    place_of = {cell: place for place, cell in enumerate(ids)}
    stay: dict[int, int] = {}
    question = "SELECT number, cells, digest, stamp FROM pages WHERE folder = ? AND made_with = ?"
    for number, cells, digest, stamp in rows(sources.judged.connection, question, [str(folder), made_with]):
        first = place_of.get(cells[0], len(ids))
        are_together = ids[first : first + len(cells)] == cells
        is_same = are_together and digest == _together(map(digests.__getitem__, cells))
        if is_same and stamp and stamp == stamp_of(path_of(folder, number)):
            stay |= dict.fromkeys(order[first : first + len(cells)], number)
    return KeptFiles(sources, folder, made_with, digests, stay, _states(sources, order, stay))


def _digests(sources: Sources, document: Document) -> dict[str, str]:
    """Return a digest of all that the page says of a cell, by the cell's id."""
    judged = sources.judged
    jobs = {number for cell in judged.cells for number in cell.jobs}
    facts = {job: f"{sorted(judged.jobs[job].items())}" for job in jobs}
    of_cases = dict(rows(judged.connection, page_sql.DIGESTS))
    digests = {}
    for number, (cell, figures) in enumerate(zip(document.cells, judged.cells, strict=True)):
        digest = sha256(cell.__pydantic_serializer__.to_json(cell))
        digest.update(f"{of_cases[number]} {[facts[job] for job in figures.jobs]}".encode("utf-8", "backslashreplace"))
        digests[cell.id] = digest.hexdigest()
    return digests


def _together(digests: Iterable[str]) -> str:
    return sha256(" ".join(digests).encode()).hexdigest()


def _made_with(sources: Sources) -> str:
    """Return a digest of what all files are made with: the harness's own code, matrix.yaml, the rules and the names."""
    names = [(named.op, named.direction, named.name) for named in sources.judged.planned.names]
    digest = sha256(_digest_of_code().encode())
    digest.update(sources.matrix.__pydantic_serializer__.to_json(sources.matrix))
    digest.update(f"{sources.rules!r} {names!r}".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


@cache
def _digest_of_code() -> str:
    digest = sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(_PACKAGE)} {sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _states(sources: Sources, order: Sequence[int], stay: Mapping[int, int]) -> dict[int, tuple[list[str], str]]:
    """Return the names of the cases of the cells that stay, and a letter for the state of each."""
    if not stay:
        return {}
    judged = sources.judged
    names = [named.name for named in judged.planned.names]
    table = judged.connection.sql(page_sql.STATES_IN_ORDER).to_arrow_table()
    named, states = (table.column(name).to_numpy() for name in ("named", "state"))
    letters = np.frombuffer("".join(LETTERS[state] for state in STATES).encode(), np.uint8)[states].tobytes().decode()
    found: dict[int, tuple[list[str], str]] = {}
    first = 0
    for number in order:
        last = first + judged.cells[number].planned
        if number in stay:
            found[number] = [names[name] for name in named[first:last].tolist()], letters[first:last]
        first = last
    return found
