"""The operators: their cases, and the outputs that results owe figures of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from kernel_matrix.config.model.fields import (
    Direction,
    Name,
    OutputName,
    Scalar,
    ScalarOrList,
    Section,
    Tier,
    has_values,
)

Lane = tuple[str, str, str]  # platform, target and toolchain
Output = OutputName | Annotated[dict[OutputName, dict[str, ScalarOrList]], Field(min_length=1, max_length=1)]


class Op(Section):
    """An operator: the axes of its cases, and the cases of each tier."""

    directions: list[Direction] = Field(min_length=1)
    axes: list[Name] = Field(min_length=1, description="What a case says; 'dtype', 'scale' and 'seed' are common.")
    defaults: dict[str, Scalar] = Field(default_factory=dict, description="Axes that a group need not mention.")
    cases: dict[Tier, list[dict[str, ScalarOrList]]] = Field(
        description="Groups; each is a product of its axes, in all directions or in those that its 'direction' names."
    )
    timed: list[dict[str, ScalarOrList]] = Field(
        default_factory=list,
        description="Groups of every tier that are timed against the baseline as well, where a machine runs them.",
    )
    outputs: dict[Direction, list[Output]] | None = Field(
        default=None,
        description="The outputs by direction that every result owes figures of: a name, or a name with the values of "
        "axes under which it is owed, as { gamma: { gamma: true } }. Without it one output is enough.",
    )
    sums: list[OutputName] = Field(
        default_factory=list,
        description="The outputs that are sums over all tokens: accuracy.growth has another limit for these.",
    )
    canary: dict[str, ScalarOrList] = Field(
        default_factory=dict,
        description="Values of axes: the cases that carry canaries are chosen among those that have them, if any has.",
    )

    def is_in(self, _lane: Lane) -> bool:
        """Return whether a lane has the operator, as far as the operator says it."""
        return True

    def owed_outputs(self, direction: Direction, axes: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Return the outputs that a case with these axes owes; none where nothing is said of them."""
        entries = (self.outputs or {}).get(direction, [])
        conditions: list[tuple[str, dict[str, ScalarOrList]]] = [
            pair for entry in entries for pair in (entry.items() if isinstance(entry, dict) else [(entry, {})])
        ]
        return tuple(name for name, where in conditions if has_values(axes, where))


class FileOfTests(Op):
    """A file of tests as an operator. matrix.yaml names none: they are known when the suite has been collected."""

    lanes: frozenset[Lane] | None = None  # that have it; None for all

    def is_in(self, lane: Lane) -> bool:
        """Return whether a lane has the operator."""
        return self.lanes is None or lane in self.lanes
