"""The plan and the present -> the tables that the rules of judging ask of."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from kernel_matrix.config.owed import Owed
from kernel_matrix.results.columns.planned import Planned
from kernel_matrix.results.columns.records import Jobs
from kernel_matrix.results.columns.sql import Connection, enter, rows
from kernel_matrix.results.present import Present
from kernel_matrix.results.record import Record

_TEXT, _NUMBER = pa.string(), pa.int32()
_RULES = ("factor", "rounded", "ulps", "cap")


def enter_plan(connection: Connection, planned: Planned) -> None:
    """Make the tables ``planned``, ``plan_cells``, ``plan_names``, ``plan_exclusions``, and what cases owe.

    That is in ``plan_owed``, and of outputs with a budget of their own in ``plan_budgets``.
    """
    cells = planned.cells
    enter(
        connection,
        "plan_cells",
        pa.schema({"cell": _NUMBER, "id": _TEXT, "platform": _TEXT, "toolchain": _TEXT, "operator": _TEXT}),
        {
            "cell": range(len(cells)),
            "id": [cell.id for cell in cells],
            "platform": [cell.platform for cell in cells],
            "toolchain": [cell.toolchain for cell in cells],
            "operator": [f"{cell.op}.{cell.direction}" for cell in cells],
        },
    )
    _enter_names(connection, planned)
    exclusions = planned.exclusions
    enter(
        connection,
        "plan_exclusions",
        pa.schema({"exclusion": _NUMBER, "reason": _TEXT}),
        {"exclusion": range(len(exclusions)), "reason": [entry.reason for entry in exclusions]},
    )
    columns = {name: getattr(planned, name) for name in ("cell", "named", "exclusion", "rules")}
    schema = pa.schema(dict.fromkeys(("planned", *columns), _NUMBER))
    enter(connection, "planned", schema, {"planned": range(len(planned.cell)), **columns})


def _enter_names(connection: Connection, planned: Planned) -> None:
    names = planned.names
    owed = {value: number for number, value in enumerate(dict.fromkeys(named.owed for named in names))}
    inputs: dict[tuple[str, str, str], int] = {}
    enter(
        connection,
        "plan_names",
        pa.schema(
            {"named": _NUMBER, "name": _TEXT, "operator": _TEXT, "inputs": _NUMBER, "owed": _NUMBER, "dtype": _TEXT}
        ),
        {
            "named": range(len(names)),
            "name": [named.name for named in names],
            "operator": [f"{named.op}.{named.direction}" for named in names],
            "inputs": [inputs.setdefault((n.op, n.direction, n.name), len(inputs)) for n in names],
            "owed": [owed[named.owed] for named in names],
            "dtype": [str(named.axes["dtype"]) if "dtype" in named.axes else None for named in names],
        },
    )
    _enter_owed(connection, owed)
    _enter_budgets(connection, owed)


def _enter_owed(connection: Connection, owed: Mapping[Owed, int]) -> None:
    growth = [value.growth or (None, None) for value in owed]
    enter(
        connection,
        "plan_owed",
        pa.schema(
            {
                "owed": _NUMBER,
                "asserted": pa.bool_(),
                **dict.fromkeys(("names", "sums"), pa.list_(_TEXT)),
                **dict.fromkeys(("growth_of_sums", "growth_of_others", *_RULES), pa.float64()),
            }
        ),
        {
            "owed": list(owed.values()),
            "asserted": [value.asserted for value in owed],
            "names": [list(dict.fromkeys(value.outputs)) for value in owed],
            "sums": [list(value.sums) for value in owed],
            "growth_of_sums": [of_sums for of_sums, _ in growth],
            "growth_of_others": [of_others for _, of_others in growth],
            **{name: [getattr(value, name) for value in owed] for name in _RULES},
        },
    )


def _enter_budgets(connection: Connection, owed: Mapping[Owed, int]) -> None:
    """Enter the rules of the outputs that have a budget of their own."""
    own = [(number, output, rules) for value, number in owed.items() for output, rules in value.own]
    names = ("factor", "rounded", "cap")
    enter(
        connection,
        "plan_budgets",
        pa.schema({"owed": _NUMBER, "output": _TEXT, **dict.fromkeys(names, pa.float64())}),
        {
            "owed": [number for number, _, _ in own],
            "output": [output for _, output, _ in own],
            **{name: [getattr(rules, name) for _, _, rules in own] for name in names},
        },
    )


def enter_stale_jobs(connection: Connection, present: Present | None, jobs: Jobs) -> None:
    """Make ``stale_jobs``, and ``stale_reasons``, whose first text is empty: for results that are not stale."""
    reasons = {"": 0}
    columns: dict[str, list[str] | list[int]] = {"job": [], "platform": [], "toolchain": [], "reason": []}
    pairs = rows(connection, "SELECT DISTINCT job, platform, toolchain FROM results JOIN plan_cells USING (cell)")
    if present is not None:
        reason = [
            reasons.setdefault(present.stale(platform, toolchain, Record("", "pass", job=jobs[job])), len(reasons))
            for job, platform, toolchain in pairs
        ]
        job, platform, toolchain = zip(*pairs, strict=True) if pairs else ((), (), ())
        columns = {"job": [*job], "platform": [*platform], "toolchain": [*toolchain], "reason": reason}
    schema = pa.schema({"job": pa.int64(), "platform": _TEXT, "toolchain": _TEXT, "reason": _NUMBER})
    enter(connection, "stale_jobs", schema, columns)
    schema = pa.schema({"stale": _NUMBER, "text": _TEXT})
    enter(connection, "stale_reasons", schema, {"stale": range(len(reasons)), "text": list(reasons)})
