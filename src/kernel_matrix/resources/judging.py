"""The limits of resources, and the last values of these -> the tables that a step of the judge asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa

from kernel_matrix.config.model import as_list, has_values
from kernel_matrix.judge.plan_tables import NUMBER, TEXT, enter_rows
from kernel_matrix.resources.section import FIGURES, Resource, entries_of
from kernel_matrix.results.planned import Planned
from kernel_matrix.store.database import Connection, one, rows, run
from kernel_matrix.store.query import opened

_FIGURES = pa.map_(TEXT, pa.float64())
_LAST = """
    SELECT c."case", arg_max(c.figures, (j.started, j.run)) FROM cases AS c JOIN jobs AS j ON c.run = j.run
    WHERE c.outcome = 'pass' AND c.artifact_kind <> '' AND c.artifact_kind NOT LIKE '%-source'
    GROUP BY c."case"
"""
_WITH_CODE = """
    CREATE OR REPLACE TEMP VIEW with_code AS
    SELECT record FROM cases WHERE kind <> '' AND NOT ends_with(kind, '-source')
"""
# The folders of last values that code is held to: to read one takes long.
_ASKED = """
    SELECT DISTINCT l.last FROM resource_limits l JOIN resource_cells USING (entry) JOIN planned p USING (cell)
    JOIN accepted a ON a.planned = p.planned SEMI JOIN with_code c ON c.record = a.record
    WHERE l.last IS NOT NULL ORDER BY l.last
"""
_WORDS = {"shared": "bytes of shared memory", "stack": "bytes of stack", "code": "bytes"}


def holding(given: Sequence[Any], planned: Planned, root: Path) -> Callable[[Connection], None]:
    """Return what fills the table ``resources`` of the judge; the folders of last values are below ``root``.

    Raises:
        UserError: an entry is wrong, or a folder has no tables.
    """
    entries = entries_of(given)
    step = files(__package__).joinpath("step.sql").read_text("utf-8")

    def hold(connection: Connection) -> None:
        run(connection, _WITH_CODE)
        if not one(connection, "SELECT count(*) > 0 FROM with_code"):
            return  # the judge has made an empty table
        _enter(connection, planned, entries, root)
        run(connection, step)

    return hold


def _enter(connection: Connection, planned: Planned, entries: Sequence[Resource], root: Path) -> None:
    """Make ``resource_limits``, the ``resource_cells`` and ``resource_names`` they hold for, and ``last_figures``."""
    limits = [
        (
            number,
            figure,
            _WORDS.get(figure, figure),
            [*keys],
            kind,
            value,
            entry.last if kind == "growth" else None,
        )
        for number, entry in enumerate(entries)
        for figure, keys in FIGURES.items()
        for kind, value in (("limit", entry.limits.get(figure)), ("growth", entry.growth))
        if value is not None
    ]
    schema = {
        "entry": NUMBER, "figure": TEXT, "words": TEXT, "keys": pa.list_(TEXT), "kind": TEXT, "value": pa.float64(),
        "last": TEXT,
    }  # fmt: skip
    enter_rows(connection, "resource_limits", schema, limits)
    cells, names = [], []
    facts = [cell.facts for cell in planned.cells]
    for number, entry in enumerate(entries):
        where = {key: values for key, values in entry.where.items() if facts and key not in facts[0]}
        of_cell = {key: as_list(values) for key, values in entry.where.items() if key not in where}
        cells += [(number, place) for place, parts in enumerate(facts) if has_values(parts, of_cell)]
        names += [(number, place) for place, named in enumerate(planned.names) if has_values(named.axes, where)]
    enter_rows(connection, "resource_cells", {"entry": NUMBER, "cell": NUMBER}, cells)
    enter_rows(connection, "resource_names", {"entry": NUMBER, "named": NUMBER}, names)
    last = []
    for (folder,) in rows(connection, _ASKED):
        with opened([root / folder]) as database:
            last += [(folder, *row) for row in database.connection.execute(_LAST).fetchall()]
    enter_rows(connection, "last_figures", {"last": TEXT, "id": TEXT, "figures": _FIGURES}, last)
