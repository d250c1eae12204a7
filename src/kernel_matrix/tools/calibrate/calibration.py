"""Noise of many seeds -> its spread for each output, and the limits that follow from it. Pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kernel_matrix.tools.calibrate.noise import Noise


@dataclass(frozen=True)
class Spread:
    """The spread of a figure over the seeds, each with its largest value: median, 95th percentile and largest."""

    median: float
    p95: float
    largest: float
    case: str  # the case with the largest value


@dataclass(frozen=True)
class OutputNoise:
    """The noise of one output of an operator in a dtype, over all seeds, shapes and toolchains."""

    op: str
    output: str
    dtype: str
    cases: int
    over: int  # cases in which this output is over its budget
    share: Spread
    ratio: Spread | None
    lanes: dict[str, float]  # the largest share of each toolchain


@dataclass(frozen=True)
class Proposal:
    """A limit that follows from the noise, by its place in ``accuracy``, with the present limit."""

    place: str
    present: float
    limit: float
    spread: Spread


def by_output(noises: Iterable[Noise]) -> list[OutputNoise]:
    """Return the noise of every output of every operator and dtype, in the order of the plan."""
    groups: dict[tuple[str, str, str], list[Noise]] = defaultdict(list)
    for noise in noises:
        groups[noise.op, noise.output, noise.dtype].append(noise)
    return [
        OutputNoise(
            op=op,
            output=output,
            dtype=dtype,
            cases=len({noise.case for noise in group}),
            over=len({noise.case for noise in group if not noise.share <= 1}),
            share=_certain(spread(group, lambda noise: noise.share)),
            ratio=spread(group, lambda noise: noise.ratio),
            lanes=_lanes(group),
        )
        for (op, output, dtype), group in groups.items()
    ]


def spread(noises: Iterable[Noise], figure: Callable[[Noise], float | None]) -> Spread | None:
    """Return the spread of a figure; None if no case has it. Of each seed its largest value counts."""
    largest: dict[object, tuple[float, str]] = {}
    for noise in noises:
        value = figure(noise)
        if value is not None:
            value = math.inf if math.isnan(value) else value
            largest[noise.seed] = max(largest.get(noise.seed, (-math.inf, "")), (value, noise.case))
    if not largest:
        return None
    ordered = sorted(largest.values())
    values = [value for value, _ in ordered]
    return Spread(_rank(values, 0.5), _rank(values, 0.95), *ordered[-1])


def proposals(noises: Sequence[Noise], present: dict[str, float]) -> list[Proposal]:
    """Return a limit for each of the present ones (by place) that the cases make a demand on.

    The rule: the least limit that leaves the largest error at two thirds of its budget, rounded up to two digits. A
    factor is never less than 1.
    """
    proposed = []
    for place, limit in present.items():
        demanded = spread(noises, lambda noise, place=place: noise.demands.get(place))  # type: ignore[misc]
        if demanded is None or not math.isfinite(demanded.largest):
            continue
        least = 1.0 if place.rpartition(".")[2] in ("factor", "rounded") else 0.0  # caps and growth are amounts
        needed = max(least, rounded_up(demanded.largest) if demanded.largest > 0 else 0.0)
        if needed > 0:
            proposed.append(Proposal(place, limit, needed, demanded))
    return proposed


def rounded_up(value: float) -> float:
    """Return the next number with two digits that is not below."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.2g}")


def _lanes(noises: Iterable[Noise]) -> dict[str, float]:
    largest: dict[str, float] = {}
    for noise in noises:
        largest[noise.lane] = max(largest.get(noise.lane, 0.0), noise.share)
    return largest


def _rank(ordered: Sequence[float], part: float) -> float:
    """Return the value at a part of an ordered sequence: the least one that so many values do not exceed."""
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)]


def _certain(spread: Spread | None) -> Spread:
    if spread is None:
        raise ValueError("a group of figures is never empty")
    return spread
