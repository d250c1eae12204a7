"""Make named cases from groups of axes. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from kernel_matrix.config.model import Direction, Op, Scalar, ScalarOrList, Tier, as_list


def expand(op: Op, tier: Tier, direction: Direction) -> list[tuple[str, dict[str, Scalar]]]:
    """Return the cases of a tier as (name, axes); the full tier has those of the quick one as well.

    Each group makes the product of its axes, in which the last axis changes first.
    """
    tiers: tuple[Tier, ...] = ("quick",) if tier == "quick" else ("quick", "full")
    groups = [group for name in tiers for group in op.cases.get(name, ())]
    return combinations(op, groups, direction)


def combinations(
    op: Op, groups: Iterable[Mapping[str, ScalarOrList]], direction: Direction
) -> list[tuple[str, dict[str, Scalar]]]:
    """Return the cases of some groups in one direction."""
    cases = []
    for group in groups:
        if "direction" in group and direction not in as_list(group["direction"]):
            continue
        values = [as_list(group[axis] if axis in group else op.defaults[axis]) for axis in op.axes]
        for combination in product(*values):
            axes = dict(zip(op.axes, combination, strict=True))
            cases.append((case_name(axes), axes))
    return cases


def case_name(axes: Mapping[str, Scalar]) -> str:
    """Return the name, such as ``tokens7-hidden200-bf16-gamma-scale1-seed0``; it determines the inputs."""
    return "-".join(_label(axis, value) for axis, value in axes.items())


def _label(axis: str, value: Scalar) -> str:
    if isinstance(value, bool):
        return axis if value else f"no_{axis}"
    if isinstance(value, str):
        return value
    return f"{axis}{value:g}"
