"""Verdicts of seeded cases -> the share of the budget and the noise that each output had. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kernel_matrix.config.model import Accuracy, Scalar
from kernel_matrix.config.plan import Cell
from kernel_matrix.job.budget import Pair, least_noise
from kernel_matrix.results.noise import ratio_of
from kernel_matrix.results.states import Verdict

TARGET = 2 / 3  # a proposed limit leaves the largest error at this share of its budget
_LIMIT = ".limit_max_abs"
_NEEDED = ("max_abs", "rel_fro", "limit_max_abs", "limit_rel_fro")
_FOR_DEMANDS = (
    *("floor_max_abs", "floor_rel_fro", "conditioning_max_abs", "conditioning_rel_fro"),
    *("largest", "itemsize", "steps", "unit"),
)

_FOR_RATIO = ("elements", "nan", "inf")


@dataclass(frozen=True)
class Noise:
    """The figures of one output of one case.

    ``share`` is the error over its budget: the larger one of ``max_abs`` and ``rel_fro``. ``ratio`` is the noise ratio,
    None where the baseline has no error. ``demands`` says what each limit must be at least, by its place in
    ``accuracy``, so that the share is :data:`TARGET` at most.
    """

    case: str
    lane: str
    op: str
    output: str
    dtype: str
    seed: Scalar
    share: float
    ratio: float | None
    demands: Mapping[str, float] = field(default_factory=dict)


def noise_of(verdicts: Iterable[Verdict], accuracy: Accuracy) -> list[Noise]:
    """Return the figures of every output of the cases that were compared and are not known to fail."""
    return [
        noise
        for verdict in verdicts
        if verdict.record and verdict.record.outcome in ("pass", "fail") and verdict.state != "known"
        for noise in _of_case(verdict, verdict.record.metrics, accuracy)
    ]


def _of_case(verdict: Verdict, metrics: Mapping[str, float], accuracy: Accuracy) -> Iterator[Noise]:
    case = verdict.case
    for output in (name.removesuffix(_LIMIT) for name in metrics if name.endswith(_LIMIT)):
        figures = {
            name: metrics[f"{output}.{name}"]
            for name in (*_NEEDED, *_FOR_DEMANDS, *_FOR_RATIO)
            if f"{output}.{name}" in metrics
        }
        if not figures.keys() >= {*_NEEDED}:
            continue
        yield Noise(
            case=case.id,
            lane=f"{case.cell.platform}/{case.cell.target}/{case.cell.toolchain}",
            op=f"{case.cell.op}.{case.cell.direction}",
            output=output.partition("@")[0],  # a variant owes what its output owes
            dtype=str(case.axes.get("dtype", "")),
            seed=case.axes["seed"],
            share=max(_share(figures, "max_abs"), _share(figures, "rel_fro")),
            ratio=ratio_of(figures),
            demands=_demands(figures, accuracy, case.cell, output) | _growth(metrics, output, verdict),
        )


def _growth(metrics: Mapping[str, float], output: str, verdict: Verdict) -> dict[str, float]:
    """Return the least limit of the growth of an output that leaves it at the target; empty if none was measured."""
    name = output.partition("@")[0]
    if f"{output}.growth" not in metrics:
        return {}
    place = "growth.sums" if name in verdict.case.owed.sums else "growth.others"
    return {place: metrics[f"{output}.growth"] / TARGET}


def _share(figures: Mapping[str, float], name: str) -> float:
    error, limit = figures[name], figures[f"limit_{name}"]
    if not math.isfinite(error):
        return math.inf
    return error / limit if limit else (math.inf if error else 0.0)


def _demands(figures: Mapping[str, float], accuracy: Accuracy, cell: Cell, output: str) -> dict[str, float]:
    """Return the least limits that leave the error at the target; empty where a figure for it is not there.

    Where √steps × conditioning alone leaves it there, no factor is needed.
    """
    if not figures.keys() >= {*_FOR_DEMANDS}:
        return {}
    least, growth = least_noise(figures["largest"], accuracy.ulps.limit), math.sqrt(figures["steps"])
    needed = Pair(figures["max_abs"] / TARGET, figures["rel_fro"] / TARGET)
    names = "cap", "factor", "rounded" if figures["itemsize"] < 4 else "factor"
    of_output = cell.op, cell.direction, output.partition("@")[0]
    cap, factor, narrow = (accuracy.place_of(name, *of_output) for name in names)
    demands = {cap: needed.max_abs / figures["unit"]}
    for name, place, minimum, need in (
        ("max_abs", factor, least.max_abs, needed.max_abs),
        ("rel_fro", narrow, least.rel_fro, needed.rel_fro),
    ):
        conditioning = figures[f"conditioning_{name}"]
        noise = max(figures[f"floor_{name}"], conditioning, minimum)
        demand = need / noise if noise and growth * conditioning < need else 0.0
        demands[place] = max(demand, demands.get(place, 0.0))
    return demands
