"""The plan -> the tables that the steps of the judge ask."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from kernel_matrix.config.owed import Owed
from kernel_matrix.results.planned import Planned
from kernel_matrix.store.database import Connection, enter

_TEXT, _NUMBER = pa.string(), pa.int32()
_RULES = ("factor", "rounded", "ulps", "cap")


def enter_plan(connection: Connection, planned: Planned) -> None:
    """Make the tables ``planned``, ``plan_cells``, ``plan_names``, ``plan_exclusions``, ``plan_expectations``.

    What cases owe is in ``plan_owed``, and the rules of outputs with a budget of their own are in ``plan_budgets``.
    """
    cells = planned.cells
    enter(
        connection,
        "plan_cells",
        pa.schema({"cell": _NUMBER, **dict.fromkeys(("id", "platform", "target", "toolchain", "operator"), _TEXT)}),
        {
            "cell": range(len(cells)),
            "id": [cell.id for cell in cells],
            "platform": [cell.platform for cell in cells],
            "target": [cell.target for cell in cells],
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
    _enter_expectations(connection, planned)
    columns = {name: getattr(planned, name) for name in ("cell", "named", "exclusion", "rules")}
    schema = pa.schema(dict.fromkeys(("planned", *columns), _NUMBER))
    enter(connection, "planned", schema, {"planned": range(len(planned.cell)), **columns})


def _enter_expectations(connection: Connection, planned: Planned) -> None:
    """Enter the expectations of each set of ``rules`` that a case may have, by their place in it."""
    found = [
        (rules, place, rule) for rules, of_set in enumerate(planned.expectations) for place, rule in enumerate(of_set)
    ]
    texts = ("outcome", "stage", "reason", "until")
    enter(
        connection,
        "plan_expectations",
        pa.schema({"rules": _NUMBER, "place": _NUMBER, **dict.fromkeys(texts, _TEXT)}),
        {
            "rules": [rules for rules, _, _ in found],
            "place": [place for _, place, _ in found],
            **{name: [getattr(rule, name) or "" for _, _, rule in found] for name in texts},
        },
    )


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
