"""The plan -> the tables that the steps of the judge ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kernel_matrix.config.owed import Owed
from kernel_matrix.results.plan_columns import Planned
from kernel_matrix.store.database import Connection, enter

TEXT, NUMBER, KEY = pa.string(), pa.int32(), pa.int64()
_RULES = ("factor", "rounded", "ulps", "cap")
_OWN_RULES = ("factor", "rounded", "cap")
_OF_AN_EXPECTATION = ("outcome", "stage", "reason", "until")


def enter_rows(
    connection: Connection, name: str, schema: Mapping[str, pa.DataType], found: Iterable[Sequence[Any]]
) -> None:
    """Keep rows of Python values as a table of this connection; ``schema`` has the type of each column."""
    columns = [*zip(*found, strict=True)] or [()] * len(schema)
    enter(connection, name, pa.schema(schema), dict(zip(schema, columns, strict=True)))


def enter_plan(connection: Connection, planned: Planned) -> None:
    """Make the tables ``planned``, ``plan_cells``, ``plan_names``, ``plan_exclusions``, ``plan_expectations``.

    What cases owe is in ``plan_owed``, and the rules of outputs with a budget of their own are in ``plan_budgets``.
    """
    texts = dict.fromkeys(("id", "platform", "target", "toolchain", "operator"), TEXT)
    cells = [
        (number, cell.id, cell.platform, cell.target, cell.toolchain, f"{cell.op}.{cell.direction}")
        for number, cell in enumerate(planned.cells)
    ]
    enter_rows(connection, "plan_cells", {"cell": NUMBER, **texts}, cells)
    _enter_names(connection, planned)
    exclusions = [(number, entry.reason) for number, entry in enumerate(planned.exclusions)]
    enter_rows(connection, "plan_exclusions", {"exclusion": NUMBER, "reason": TEXT}, exclusions)
    expectations = [  # of each set of ``rules`` that a case may have, by their place in it
        (rules, index, *(getattr(rule, name) or "" for name in _OF_AN_EXPECTATION))
        for rules, of_set in enumerate(planned.expectations)
        for index, rule in enumerate(of_set)
    ]
    schema = {"rules": NUMBER, "place": NUMBER, **dict.fromkeys(_OF_AN_EXPECTATION, TEXT)}
    enter_rows(connection, "plan_expectations", schema, expectations)
    columns = {name: getattr(planned, name) for name in ("cell", "named", "exclusion", "rules")}
    cases = pa.schema(dict.fromkeys(("planned", *columns), NUMBER))
    enter(connection, "planned", cases, {"planned": range(len(planned.cell)), **columns})


def _enter_names(connection: Connection, planned: Planned) -> None:
    owed: dict[Owed, int] = {}
    inputs: dict[tuple[str, str, str], int] = {}
    names = [
        (
            number,
            named.name,
            f"{named.op}.{named.direction}",
            inputs.setdefault((named.op, named.direction, named.name), len(inputs)),
            owed.setdefault(named.owed, len(owed)),
            str(named.axes["dtype"]) if "dtype" in named.axes else None,
        )
        for number, named in enumerate(planned.names)
    ]
    schema = {"named": NUMBER, "name": TEXT, "operator": TEXT, "inputs": NUMBER, "owed": NUMBER, "dtype": TEXT}
    enter_rows(connection, "plan_names", schema, names)
    _enter_owed(connection, owed)


def _enter_owed(connection: Connection, owed: Mapping[Owed, int]) -> None:
    """Enter what cases owe, and the rules of the outputs that have a budget of their own."""
    lists, limits = ("names", "sums"), ("growth_of_sums", "growth_of_others", "misrounded", *_RULES)
    types = {
        "owed": NUMBER,
        "asserted": pa.bool_(),
        **dict.fromkeys(lists, pa.list_(TEXT)),
        **dict.fromkeys(limits, pa.float64()),
    }
    found = [
        (
            number,
            value.asserted,
            list(dict.fromkeys(value.outputs)),
            list(value.sums),
            *(value.growth or (None, None)),
            value.misrounded,
            *(getattr(value, name) for name in _RULES),
        )
        for value, number in owed.items()
    ]
    enter_rows(connection, "plan_owed", types, found)
    own = [
        (number, output, *(getattr(rules, name) for name in _OWN_RULES))
        for value, number in owed.items()
        for output, rules in value.own
    ]
    schema = {"owed": NUMBER, "output": TEXT, **dict.fromkeys(_OWN_RULES, pa.float64())}
    enter_rows(connection, "plan_budgets", schema, own)
