"""Figures of outputs -> the noise of every cell by dtype and output, as :class:`kernel_matrix.results.noise.Noise`.

The sums are made in the order of the plan, one number after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.results.noise import MOST_ELEMENTS, WIDE, Noise, least_exact_first
from kernel_matrix.store.database import Connection, rows, temporary

_Floats = npt.NDArray[np.float64]
_Group = tuple[int, str, str, int, bool]  # cell, dtype, output, cases, whether some were emulated
_SUMS = ("elements", "with_ratio", "squares", "narrow", "wrong", "floor_wrong")


def pooled(connection: Connection, where: str = "true") -> tuple[list[_Group], dict[str, _Floats]]:
    """Return the groups of outputs that are summed up together, and the sums of each, of the cases of a condition."""
    groups = _number_groups(connection, where)
    return groups, _sums(connection, len(groups))


def noise_of_cells(groups: Sequence[_Group], sums: Mapping[str, _Floats]) -> dict[int, dict[str, dict[str, Noise]]]:
    """Return the noise by cell, dtype and output, the least exact output first, of what ``pooled`` returns."""
    cells: dict[int, dict[str, dict[str, Noise]]] = {}
    of_groups = zip(groups, *(sums[name].tolist() for name in _SUMS), strict=True)
    for (cell, dtype, output, cases, emulated), *of_group in of_groups:
        of_sums = dict(zip(_SUMS, of_group, strict=True))
        noise = Noise(cases, "emulated" if emulated else "ran", **of_sums)
        cells.setdefault(cell, {}).setdefault(dtype, {})[output] = noise
    return {
        cell: {dtype: least_exact_first(outputs) for dtype, outputs in sorted(of_cell.items())}
        for cell, of_cell in cells.items()
    }


def _number_groups(connection: Connection, where: str) -> list[_Group]:
    """Make ``noise_groups`` and return them in order: cell, dtype, output, cases, whether some were emulated."""
    temporary(
        connection,
        "compared",
        f"""
        SELECT t.planned, o.place, t.cell, coalesce(n.dtype, 'any') AS dtype, o.output,
               t.action = 'emulate' AS emulated,
               o.elements, o.nan, o.inf, o.rel_fro, o.floor_rel_fro, o.itemsize, o.misrounded, o.floor_misrounded
        FROM taken t JOIN outputs o USING (record) JOIN planned p USING (planned) JOIN plan_names n USING (named)
        WHERE t.outcome IN ('pass', 'fail') AND o.rel_fro IS NOT NULL AND o.floor_rel_fro IS NOT NULL
          AND {where}
        """,
    )
    temporary(
        connection,
        "noise_groups",
        """
        SELECT row_number() OVER (ORDER BY cell, dtype, output) - 1 AS number, *
        FROM (SELECT cell, dtype, output, count(*) AS cases, bool_or(emulated) AS emulated FROM compared GROUP BY ALL)
        """,
    )
    return [
        (cell, dtype, output, cases, emulated)
        for cell, dtype, output, cases, emulated in rows(
            connection, "SELECT cell, dtype, output, cases, emulated FROM noise_groups ORDER BY number"
        )
    ]


def _sums(connection: Connection, groups: int) -> dict[str, _Floats]:
    """Return the sums of every group, added up in the order of the plan."""
    sums = {name: np.zeros(groups) for name in _SUMS}
    question = """
        SELECT number, coalesce(elements, 1.0) AS elements, coalesce(nan, 0.0) AS nan, coalesce(inf, 0.0) AS inf,
               rel_fro, floor_rel_fro, coalesce(itemsize, 4.0) AS itemsize,
               misrounded IS NOT NULL AND floor_misrounded IS NOT NULL AS rounded,
               coalesce(misrounded, 0.0) AS misrounded, coalesce(floor_misrounded, 0.0) AS floor_misrounded
        FROM compared JOIN noise_groups USING (cell, dtype, output) ORDER BY compared.planned, compared.place
    """
    for batch in connection.sql(question).to_arrow_reader(100_000):
        with np.errstate(over="ignore", invalid="ignore"):  # a stranger's figures may be of any size
            _add(sums, {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names})
    return sums


def _add(sums: dict[str, _Floats], column: dict[str, Any]) -> None:
    """Add some rows: of each its weight, its square if it has a ratio, and its shares if it is narrow."""
    number = column["number"]
    weight = np.minimum(_magnitude(column["elements"]), MOST_ELEMENTS)
    error, floor = _magnitude(column["rel_fro"]), _magnitude(column["floor_rel_fro"])
    error = np.where((column["nan"] != 0) | (column["inf"] != 0), np.inf, error)
    np.add.at(sums["elements"], number, weight)
    known = (floor != 0) & (floor < np.inf)
    np.add.at(sums["with_ratio"], number[known], weight[known])
    known &= error != 0
    share = error[known] / floor[known]
    np.add.at(sums["squares"], number[known], weight[known] * share * share)
    narrow = (column["itemsize"] < WIDE) & column["rounded"].astype(bool)
    np.add.at(sums["narrow"], number[narrow], weight[narrow])
    for name, share in (("wrong", "misrounded"), ("floor_wrong", "floor_misrounded")):
        np.add.at(sums[name], number[narrow], weight[narrow] * _magnitude(column[share][narrow]))


def _magnitude(values: _Floats) -> _Floats:
    """Return figures; Inf for NaN, and for a negative one."""
    return np.where(values >= 0, values, np.inf)
