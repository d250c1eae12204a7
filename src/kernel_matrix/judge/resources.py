"""The limits of resources, and the last values of these -> the tables that a step of the judge asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kernel_matrix.config.model import FIGURES, Resource, has_values
from kernel_matrix.config.plan import of_axes, selects_some
from kernel_matrix.judge.plan_tables import NUMBER, TEXT, enter_rows
from kernel_matrix.results.planned import Planned
from kernel_matrix.store.database import Connection
from kernel_matrix.store.query import opened

_FIGURES = pa.map_(TEXT, pa.float64())
_LAST = """
    SELECT c."case", arg_max(c.figures, (j.started, j.run)) FROM cases AS c JOIN jobs AS j ON c.run = j.run
    WHERE c.outcome = 'pass' AND c.artifact_kind <> '' AND c.artifact_kind NOT LIKE '%-source'
    GROUP BY c."case"
"""


def enter_resources(connection: Connection, planned: Planned, entries: Sequence[Resource], root: Path) -> None:
    """Make ``resource_limits``, the ``resource_cells`` and ``resource_names`` they hold for, and ``last_figures``."""
    limits = [
        (number, figure, [*keys], kind, value, entry.last if kind == "growth" else None, entry.only_compiled)
        for number, entry in enumerate(entries)
        for figure, keys in FIGURES.items()
        for kind, value in (("limit", entry.limits.get(figure)), ("growth", entry.growth))
        if value is not None
    ]
    schema = {
        "entry": NUMBER, "figure": TEXT, "keys": pa.list_(TEXT), "kind": TEXT, "value": pa.float64(), "last": TEXT,
        "only_compiled": pa.bool_(),
    }  # fmt: skip
    enter_rows(connection, "resource_limits", schema, limits)
    cells, names = [], []
    for number, entry in enumerate(entries):
        facts = [cell.facts for cell in planned.cells]
        cells += [(number, place) for place, of_cell in enumerate(facts) if selects_some(entry, of_cell)]
        where = of_axes(entry, facts[0]) if facts else {}
        names += [(number, place) for place, named in enumerate(planned.names) if has_values(named.axes, where)]
    enter_rows(connection, "resource_cells", {"entry": NUMBER, "cell": NUMBER}, cells)
    enter_rows(connection, "resource_names", {"entry": NUMBER, "named": NUMBER}, names)
    last = []
    for folder in dict.fromkeys(entry.last for entry in entries if entry.last):
        with opened([root / folder]) as database:
            last += [(folder, *row) for row in database.connection.execute(_LAST).fetchall()]
    enter_rows(connection, "last_figures", {"last": TEXT, "id": TEXT, "figures": _FIGURES}, last)
