"""Samples of a time -> the figures that are kept of them. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """The median of some samples, the 5th and the 95th percentile, and how many samples there were."""

    median: float
    p5: float
    p95: float
    samples: int

    @property
    def spread(self) -> float:
        """The distance from the 5th to the 95th percentile, over the median."""
        return (self.p95 - self.p5) / self.median if self.median else math.inf


def summary(samples: Sequence[float]) -> Summary:
    """Return the figures of some samples.

    Raises:
        ValueError: there is none, or one of them is no positive number: a clock gave it, and nothing can be said.
    """
    if not samples:
        raise ValueError("there is no sample")
    if not all(math.isfinite(sample) and sample > 0 for sample in samples):
        raise ValueError("a sample is not a positive number of seconds")
    ordered = sorted(samples)
    return Summary(quantile(ordered, 0.5), quantile(ordered, 0.05), quantile(ordered, 0.95), len(ordered))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of the ordered values lies, between its two neighbours in proportion."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def copies_needed(copy_bytes: int, cache_bytes: int, most: int, times: float = 2.0) -> int:
    """Return how many copies of the inputs and outputs are used in turn, so that the cache holds none of them.

    Together they are ``times`` as large as the cache, and at least two; never more than ``most``.
    """
    return max(2, min(most, math.ceil(times * cache_bytes / max(1, copy_bytes))))
