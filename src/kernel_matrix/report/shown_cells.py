"""The cells of an earlier report in a database that is kept: where no verdict of a cell was judged anew, they stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pydantic_core import PydanticSerializationError

from kernel_matrix.report.document import Cell, cell_as_json, cell_of_json
from kernel_matrix.report.page_sql import LETTERS_OF_CELLS
from kernel_matrix.results.columns.code import digest_of_code
from kernel_matrix.results.columns.sql import enter, rows

if TYPE_CHECKING:
    from kernel_matrix.report.from_columns import Sources

_SCHEMA = pa.schema(
    {
        "cell": pa.int32(),
        **dict.fromkeys(("made_with", "content"), pa.string()),
        "seconds": pa.float64(),
        **dict.fromkeys(("measured", "jobs"), pa.list_(pa.int64())),
        **dict.fromkeys(("states", "digest"), pa.string()),
    }
)


@dataclass(frozen=True)
class Shown:
    """A cell as a report shows it.

    ``measured`` are the numbers of the jobs that measured its outputs, and ``jobs`` those of all its records.
    ``states`` has a letter for each of its cases, and ``digest`` is one of all that the page says of it and of these.
    """

    cell: Cell
    measured: tuple[int, ...]
    jobs: tuple[int, ...]
    states: str
    digest: str


def read(sources: Sources) -> dict[int, Shown]:
    """Return the cells that stay, by number; none if the database is not kept."""
    judged = sources.judged
    if not judged.is_kept:
        return {}
    question = """
        SELECT cell, content, seconds, measured, jobs, states, digest
        FROM shown_cells JOIN kept_cells USING (cell, judged) WHERE made_with = ?
    """
    shown = {}
    for number, content, seconds, measured, jobs, states, digest in rows(
        judged.connection, question, [made_with(sources)]
    ):
        places = {place for job in measured if (place := sources.jobs.place(judged.jobs[job])) is not None}
        cell = replace(cell_of_json(content), seconds=seconds, measured=tuple(sorted(places)))
        shown[number] = Shown(cell, tuple(measured), tuple(jobs), states, digest)
    return shown


def enter_shown(sources: Sources, shown: Mapping[int, Shown]) -> None:
    """Keep cells for the next report, by number, in place of what it has of them."""
    connection = sources.judged.connection
    kept = {number: (one, content) for number, one in shown.items() if (content := _content(one.cell)) is not None}
    columns = {
        "cell": [*kept],
        "made_with": [made_with(sources)] * len(kept),
        "content": [content for _, content in kept.values()],
        "seconds": [one.cell.seconds for one, _ in kept.values()],
        **{name: [getattr(one, name) for one, _ in kept.values()] for name in ("measured", "jobs", "states", "digest")},
    }
    enter(connection, "new_shown", _SCHEMA, columns)
    connection.begin()
    connection.execute("DELETE FROM shown_cells WHERE cell IN (SELECT cell FROM new_shown)").fetchall()
    connection.execute(
        "INSERT INTO shown_cells BY NAME SELECT n.*, judged FROM new_shown n JOIN kept_cells USING (cell)"
    ).fetchall()
    connection.commit()


def _content(cell: Cell) -> bytes | None:
    try:
        return cell_as_json(cell)
    except PydanticSerializationError:  # UTF-8 does not have some text: it is made again each time
        return None


def states_of(sources: Sources, cells: Sequence[int]) -> dict[int, str]:
    """Return a letter for the state of each case of some cells, by the number of the cell."""
    return dict(rows(sources.judged.connection, LETTERS_OF_CELLS, [list(cells)]))


def names_of(sources: Sources, cells: Iterable[int]) -> dict[int, list[str]]:
    """Return the names of the cases of some cells, by the number of the cell."""
    planned = sources.judged.planned
    order = np.argsort(planned.cell, kind="stable")
    ends = np.searchsorted(planned.cell[order], np.arange(len(planned.cells) + 1))
    names, named = [one.name for one in planned.names], planned.named[order]
    return {cell: [names[place] for place in named[ends[cell] : ends[cell + 1]].tolist()] for cell in cells}


def made_with(sources: Sources) -> str:
    """Return a digest of what all cells are made with: the harness's own code, matrix.yaml, the rules and the names."""
    names = [(named.op, named.direction, named.name) for named in sources.judged.planned.names]
    digest = sha256(digest_of_code().encode())
    digest.update(sources.matrix.__pydantic_serializer__.to_json(sources.matrix))
    digest.update(f"{sources.rules!r} {names!r}".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()
