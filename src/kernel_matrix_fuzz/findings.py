"""The finding of a search, in words, and as entries for matrix.yaml."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_matrix.config.model import Op, Scalar
from kernel_matrix_fuzz.names import SEED, Tried
from kernel_matrix_fuzz.search import Finding


def entry_of(op: Op, tried: Tried) -> str:
    """Return the lines to add to matrix.yaml: values of the axes where they say it all, and else the name."""
    if tried.rules or tried.views:
        return f"fuzz:\n  known:\n    - {tried.name(op)!r}\n"
    axes: dict[str, Scalar] = {**tried.axes, **({SEED: tried.seed} if SEED in op.axes else {})}
    named = {axis: value for axis, value in axes.items() if op.defaults.get(axis) != value}
    group = ", ".join(f"{axis}: {_text(value)}" for axis, value in {"direction": tried.direction, **named}.items())
    return f"ops:\n  {tried.op}:\n    cases:\n      quick:\n        - {{ {group} }}\n"


def words(op: Op, finding: Finding, command: str) -> str:
    """Return a finding in several lines: its name, what was wrong, whether it repeats, and the entry."""
    shrunk = "the smallest" if finding.is_smallest else "not shrunk to the end"
    repeats = "repeats in a new process" if finding.repeats else "does NOT repeat in a new process"
    lines = [
        f"FAILS {finding.tried.name(op)}",
        f"  {finding.verdict.words}",
        f"  {shrunk}, found as {finding.first.name(op)}",
        f"  {repeats}: {command}",
        "  for matrix.yaml:",
        *(f"    {line}" for line in entry_of(op, finding.tried).splitlines()),
    ]
    return "\n".join(f"  {line}" for line in lines)


def totals(states: Mapping[str, int]) -> str:
    """Return the counts of the verdicts in words."""
    return ", ".join(f"{count} {state}" for state, count in states.items() if count)


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"
