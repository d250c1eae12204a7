"""Measure how the error of an output grows with the number of tokens: a case of many is run with fewer as well.

The size of an error is counted in the noise: how far the golden moves when every input is off by one rounding error of
fp32. An error below the noise counts as the noise, so that neither luck at few tokens nor a sum that cancels makes a
slope. It is the slope of a straight line through log(error) over log(tokens). What it may be follows from how errors
of rounding add up (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019): s additions, one
after the other, are off by about √s rounding errors.

- One chain over all T tokens is off by √T: its slope is 1/2.
- √T chains of √T tokens each, and one chain over their sums, are off by √(2√T): the slope is 1/4. A fixed number of
  blocks comes near 1/2 too, but for more tokens than here. A sum in pairs has a slope near 0.
- An output of each token alone is no sum over tokens: its slope is 0.

``accuracy.growth`` in matrix.yaml has the limits. The gradient of alpha has so few numbers that one case sees it less
sharply than the others. The gradients of phi, gamma and bias are summed from the same terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from constants import PARAMETERS
from held import hold as require

TOKENS = (16, 256, 4096, 16384)
LEAST = 4096  # tokens from which a case is run with fewer as well

_ROUNDING = 2.0**-24  # the largest relative error of one rounding to fp32


@dataclass(frozen=True)
class Point:
    """The relative Frobenius error of one output at a number of tokens, and the noise there."""

    tokens: int
    error: float
    noise: float

    @property
    def size(self) -> float:
        """The error in units of the noise, at least one."""
        ratio = self.error / max(self.noise, _ROUNDING)
        return 1.0 if ratio <= 1 else ratio  # max() would take NaN for one


def fewer_than(tokens: int) -> list[int]:
    """Return the smaller numbers of tokens that a case of ``tokens`` is run with as well; none for a small case."""
    return [size for size in TOKENS if size < tokens] if tokens >= LEAST else []


def first_tokens(inputs: Any, tokens: int) -> Any:
    """Return the inputs of the first tokens alone; the parameters stay whole."""
    every = inputs[0].shape[0]
    values = inputs._asdict()
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and name not in PARAMETERS and value.shape[0] == every:
            values[name] = value[:tokens]
    return type(inputs)(**values)


def slope(points: Sequence[Point]) -> float:
    """Return the slope of log(size) over log(tokens) by least squares."""
    tokens = [math.log(point.tokens) for point in points]
    middle = sum(tokens) / len(tokens)
    rise = sum((at - middle) * math.log(point.size) for at, point in zip(tokens, points, strict=True))
    return rise / sum((at - middle) ** 2 for at in tokens)


def hold(outputs: Mapping[str, Sequence[Point]], metrics: dict[str, float], limit_of: Callable[[str], float]) -> None:
    """Record the slope of every output and its limit, and compare them. ``limit_of`` returns the limit of an output.

    Raises:
        AssertionError: an error grows too fast; the text says which, and its size at every number of tokens.
    """
    faults = []
    for name, points in outputs.items():
        grown, limit = slope(points), limit_of(name)
        metrics |= {f"{name}.growth": grown, f"{name}.limit_growth": limit}
        if not grown <= limit:
            sizes = ", ".join(f"{point.size:.3g} at {point.tokens}" for point in points)
            faults.append(f"{name}: the error grows as tokens^{grown:.2f}, over {limit:.3g} ({sizes} times the noise)")
    require(not faults, "; ".join(faults))
