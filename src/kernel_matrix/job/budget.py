"""The formula of the error budget, as a pure function of numbers.

A job calls it with what it has measured. The judge makes the same limits of what the record says, in SQL
(``judge/steps/07_limits.sql``); ``tests/judge/test_budget.py`` compares the two. The comment at the end of
:mod:`kernel_matrix.job.accuracy` says why a budget is made so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EPSILON = 2.0**-23  # of fp32: the distance from 1 to the next number


@dataclass(frozen=True)
class Pair:
    """One number for the largest error, and one for the error relative to the golden's Frobenius norm."""

    max_abs: float
    rel_fro: float


@dataclass(frozen=True)
class Rules:
    """The limits that a budget is made with: factors of the noise, ULP, and the cap at unit scale.

    ``misrounded`` is the share of misrounded elements that an output narrower than fp32 may have, if there is such a
    limit.
    """

    factor: float
    rounded: float
    ulps: float
    cap: float
    misrounded: float | None = None


def rules_of(accuracy: Mapping[str, Any], op: str, direction: str, output: str) -> Rules:
    """Return the limits that hold for an output, by matrix.yaml's ``accuracy`` without its sources.

    The name of the output may end with the name of a variant (``phi@tensor_cores``).
    """
    general = {name: accuracy[name] for name in ("factor", "rounded", "ulps")}
    limits = {**general, "cap": accuracy["caps"][direction], "misrounded": accuracy.get("misrounded")}
    wanted = {"op": op, "direction": direction, "output": output.partition("@")[0]}
    for own in accuracy.get("budgets", ()):
        if all(own[key] in (None, value) for key, value in wanted.items()):
            limits |= {name: own[name] for name in ("factor", "rounded", "cap") if name in own}
    return Rules(**limits)


def least_noise(largest: float, ulps: float) -> Pair:
    """Return ``ulps`` steps of fp32 at the golden's largest value, absolute and relative."""
    spacing = EPSILON * 2.0 ** math.floor(math.log2(largest)) if largest else 0.0
    return Pair(ulps * spacing, ulps * EPSILON)


def most_misrounded(share: float, elements: float, baseline: float) -> float:
    """Return the largest share of misrounded elements that an output may have; ``baseline`` is the baseline's share.

    It is ``share``, or twice the baseline's where that rounds on the way too, and what few elements can have by luck:
    their number has about the variance of its mean, so it is four standard deviations and two elements more.
    """
    expected = elements * max(share, 2 * baseline)
    return (expected + 4 * math.sqrt(expected) + 2) / elements


def cap_at(cap: float, largest: float, itemsize: int) -> float:
    """Return the cap of an output; of a dtype of one byte it is at least the last rounding of the largest value.

    That is half a step, and E5M2 has four steps from one power of two to the next.
    """
    return max(cap, largest / 8) if itemsize < 2 else cap


def limits(
    floor: Pair,
    conditioning: Pair,
    *,
    largest: float,
    itemsize: int,
    steps: float,
    factor: float,
    rounded: float,
    ulps: float,
    cap: float,
) -> Pair:
    """Return the largest errors that one output may have.

    ``max_abs`` is ``min(cap, max(factor × noise, √steps × conditioning))``, where the noise is the largest of
    ``floor``, ``conditioning`` and :func:`least_noise`. ``rel_fro`` has no cap, and ``rounded`` for ``factor`` where
    an element of the output has fewer bytes than fp32 (``itemsize``). ``largest`` is the largest |golden|.
    """
    least, growth = least_noise(largest, ulps), math.sqrt(steps)
    noise = Pair(
        max(floor.max_abs, conditioning.max_abs, least.max_abs),
        max(floor.rel_fro, conditioning.rel_fro, least.rel_fro),
    )
    return Pair(
        min(cap_at(cap, largest, itemsize), max(factor * noise.max_abs, growth * conditioning.max_abs)),
        max((rounded if itemsize < 4 else factor) * noise.rel_fro, growth * conditioning.rel_fro),
    )
