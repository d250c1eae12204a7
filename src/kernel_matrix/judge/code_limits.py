"""The limits of what code needs, and the last values -> the tables that the step ``10_resources`` asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kernel_matrix.config.model import Resource, as_list, has_values
from kernel_matrix.config.model.resources import FIGURES
from kernel_matrix.judge.plan_tables import NUMBER, TEXT, enter_rows
from kernel_matrix.results.plan_columns import Planned
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


def enter_code_limits(connection: Connection, planned: Planned, entries: Sequence[Resource], root: Path) -> bool:
    """Enter the limits, and return whether any result has code; the folders of last values are below ``root``.

    Raises:
        UserError: a folder has no tables.
    """
    run(connection, _WITH_CODE)
    if not one(connection, "SELECT count(*) > 0 FROM with_code"):
        return False  # an earlier step has made an empty table
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
    _enter_cases(connection, planned, entries)
    last = []
    for (folder,) in rows(connection, _ASKED):
        with opened([root / folder]) as database:
            last += [(folder, *row) for row in database.connection.execute(_LAST).fetchall()]
    enter_rows(connection, "last_figures", {"last": TEXT, "id": TEXT, "figures": _FIGURES}, last)
    return True


def _enter_cases(connection: Connection, planned: Planned, entries: Sequence[Resource]) -> None:
    """Make the ``resource_cells`` and ``resource_names`` that the entries hold for."""
    cells, names = [], []
    facts = [cell.facts for cell in planned.cells]
    for number, entry in enumerate(entries):
        where = {key: values for key, values in entry.where.items() if facts and key not in facts[0]}
        of_cell = {key: as_list(values) for key, values in entry.where.items() if key not in where}
        cells += [(number, index) for index, parts in enumerate(facts) if has_values(parts, of_cell)]
        names += [(number, index) for index, named in enumerate(planned.names) if has_values(named.axes, where)]
    enter_rows(connection, "resource_cells", {"entry": NUMBER, "cell": NUMBER}, cells)
    enter_rows(connection, "resource_names", {"entry": NUMBER, "named": NUMBER}, names)
