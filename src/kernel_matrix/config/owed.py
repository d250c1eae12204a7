"""What the result of a case must prove, by matrix.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernel_matrix.config.model import ASSERTED, Direction, Matrix, Scalar, has_values


@dataclass(frozen=True)
class Owed:
    """The outputs whose figures a result owes, the rules of their budgets, and whether the case is apt for canaries.

    Where ``outputs`` is empty, matrix.yaml does not say which outputs the operator has, and one is enough. A result of
    a case that is ``asserted`` owes none: the suite's test asserts by itself. Where it has figures, they are judged.
    """

    outputs: tuple[str, ...]
    factor: float
    rounded: float
    ulps: float
    cap: float  # the largest absolute error at unit scale
    apt_for_canaries: bool
    asserted: bool = False


NamedCase = tuple[str, Mapping[str, Scalar], Owed]


def with_owed(
    matrix: Matrix, op_name: str, direction: Direction, cases: Iterable[tuple[str, dict[str, Scalar]]]
) -> list[NamedCase]:
    """Return the named cases of an operator in a direction, each with what it owes. Equal debts are one object."""
    op, accuracy = matrix.ops[op_name], matrix.accuracy
    rules = accuracy.factor.limit, accuracy.rounded.limit, accuracy.ulps.limit, accuracy.caps[direction].limit
    known: dict[tuple[tuple[str, ...], bool], Owed] = {}
    named: list[NamedCase] = []
    for name, axes in cases:
        key = op.owed_outputs(direction, axes), has_values(axes, op.canary)
        if key not in known:
            known[key] = Owed(key[0], *rules, key[1], direction == ASSERTED)
        named.append((name, axes, known[key]))
    return named
