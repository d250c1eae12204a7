"""Say what the result of a case must prove, by matrix.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernel_matrix.config.model import ASSERTED, Direction, Matrix, Scalar, has_values
from kernel_matrix.job.budget import Rules, rules_of


@dataclass(frozen=True)
class Owed:
    """The outputs whose figures a result owes, the rules of their budgets, and whether the case is apt for canaries.

    Where ``outputs`` is empty, matrix.yaml does not say which outputs the operator has, and one is enough. ``sums`` are
    outputs that are sums over all tokens; ``growth`` has the limits of the growth of errors, of these and of other
    outputs, or is None if matrix.yaml has no such rule. A result of a case that is ``asserted`` owes no output: the
    suite's test asserts by itself. Where it has figures, they are judged. ``own`` has the rules of the outputs
    that have a budget of their own.
    """

    outputs: tuple[str, ...]
    factor: float
    rounded: float
    ulps: float
    cap: float  # the largest absolute error at unit scale
    apt_for_canaries: bool
    sums: tuple[str, ...] = ()
    growth: tuple[float, float] | None = None
    asserted: bool = False
    own: tuple[tuple[str, Rules], ...] = ()
    misrounded: float | None = None

    def rules(self, output: str) -> Rules:
        """Return the rules of the budget of an output; its name may end with the name of a variant."""
        general = Rules(self.factor, self.rounded, self.ulps, self.cap, self.misrounded)
        return dict(self.own).get(output.partition("@")[0], general)


NamedCase = tuple[str, Mapping[str, Scalar], Owed]


def with_owed(
    matrix: Matrix, op_name: str, direction: Direction, cases: Iterable[tuple[str, dict[str, Scalar]]]
) -> list[NamedCase]:
    """Return the named cases of an operator in a direction, each with what it owes. Equal debts are one object."""
    op, accuracy = matrix.ops[op_name], matrix.accuracy
    limits = accuracy.limits()
    general = rules_of(limits, op_name, direction, "")
    rules = general.factor, general.rounded, general.ulps, general.cap
    outputs = {own.output for own in accuracy.budgets if own.op == op_name and own.output}
    own = tuple((output, rules_of(limits, op_name, direction, output)) for output in sorted(outputs))
    growth = (accuracy.growth.sums.limit, accuracy.growth.others.limit) if accuracy.growth else None
    known: dict[tuple[tuple[str, ...], bool], Owed] = {}
    named: list[NamedCase] = []
    for name, axes in cases:
        key = op.owed_outputs(direction, axes), has_values(axes, op.canary)
        if key not in known:
            known[key] = Owed(key[0], *rules, key[1], tuple(op.sums), growth, direction == ASSERTED, own,
                              general.misrounded)  # fmt: skip
        named.append((name, axes, known[key]))
    return named
