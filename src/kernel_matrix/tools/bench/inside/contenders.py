"""Distances from the golden -> why a contender is not timed. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernel_matrix.job.budget import Pair, limits
from kernel_matrix.tools.bench.inside.protocol import Distance, Yardstick


@dataclass(frozen=True)
class Rules:
    """The limits of matrix.yaml: ``accuracy`` for the package's kernels, and the limit of the rivals."""

    factor: float
    rounded: float
    ulps: float
    cap: float
    rival: float
    budgets: Sequence[Mapping[str, Any]] = ()  # of the operator in this direction, or of one of its outputs

    def of(self, output: str) -> Rules:
        """Return the limits of an output: of several entries that name a limit, the last one holds."""
        rules = self
        for own in self.budgets:
            if own["output"] in (None, output):
                rules = replace(rules, **{name: own[name] for name in ("factor", "rounded", "cap") if name in own})
        return rules


@dataclass(frozen=True)
class Judgement:
    """The largest error over all outputs, the largest share of a limit, and what is outside; empty if nothing is."""

    rel_fro: float
    share: float
    faults: tuple[str, ...]


def judge(
    distances: Mapping[str, Distance], yardsticks: Mapping[str, Yardstick], rules: Rules, *, own: bool
) -> Judgement:
    """Hold every output to its limit. ``own`` are the package's kernels; a rival has a limit of its own."""
    faults = [f"{name}: the output is missing" for name in yardsticks if own and name not in distances]
    if not distances:
        faults.append("no output was compared")
    worst, share = 0.0, 0.0
    for name, distance in distances.items():
        error = distance.error
        limit = _limit(yardsticks[name], rules.of(name)) if own else Pair(math.inf, rules.rival)
        worst = max(worst, error.rel_fro) if error.rel_fro == error.rel_fro else math.inf
        share = max(share, *(_share(*pair) for pair in _pairs(error, limit)))
        if not distance.finite:
            faults.append(f"{name}: NaN or Inf")
        for figure, (value, most) in zip(("max_abs", "rel_fro"), _pairs(error, limit), strict=True):
            if not value <= most:
                plain = getattr(yardsticks[name].floor, figure) if own else 0.0
                also = f", and plain code has {plain:.3g}" if plain > most else ""
                faults.append(f"{name}: {figure} {value:.3g} is over {most:.3g}{also}")
    return Judgement(worst, share, tuple(faults))


def _limit(yardstick: Yardstick, rules: Rules) -> Pair:
    return limits(
        yardstick.floor,
        yardstick.conditioning,
        largest=yardstick.largest,
        itemsize=yardstick.itemsize,
        steps=yardstick.steps,
        factor=rules.factor,
        rounded=rules.rounded,
        ulps=rules.ulps,
        cap=rules.cap * yardstick.unit,
    )


def _pairs(error: Pair, limit: Pair) -> tuple[tuple[float, float], tuple[float, float]]:
    return (error.max_abs, limit.max_abs), (error.rel_fro, limit.rel_fro)


def _share(value: float, most: float) -> float:
    if math.isinf(most):
        return 0.0
    return value / most if most else (math.inf if value else 0.0)
