"""Find the odd one out among the members that computed one output, without knowing which of them is right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernel_matrix.results.ulp import Distances

FACTOR = 4.0  # times the spread of the others, or the noise
# ULP that correct kernels may differ by in the median: in dtypes narrower than fp32, and in others.
NARROW, WIDE = 0.5, 4.0
_FAR = 2.0**48  # instead of infinity, so that sums of distances still tell the members apart


@dataclass(frozen=True)
class Vote:
    """The place of the consensus, every member's distance from it, and the places of the odd ones out."""

    consensus: int
    scores: tuple[float, ...]
    odd: tuple[int, ...]


def vote(median: Distances, p99: Distances, noise: float, *, narrow: bool) -> Vote:
    """Return the consensus and the odd ones out of at least three members.

    The consensus is the medoid: the member with the least sum of median distances to all others (of equals, the one
    with the least sum of 99th percentiles). A member is odd if its median distance to the consensus is more than
    ``FACTOR`` times the spread of the others, or times the noise if that is larger, plus what correct kernels may
    differ by. The spread is the median of the others' distances to the consensus. ``noise`` is the error of the
    baseline, or how far one rounding error of the inputs moves the golden, in ULP of the largest value and without the
    last rounding.

    Why so. A median distance does not change through a few elements where summands cancel, and a medoid does not move
    through a few wrong members. Correct kernels that sum in another order are a few ULP of fp32 apart, all about as
    far: hence the factor, and the constant where the others agree bit for bit. A kernel may compute in fp32 where TF32
    is allowed: the baseline's error says what is allowed, and so nobody is odd for being more exact. In a narrower
    dtype the last rounding hides the order of a sum in most elements, so that a median of one ULP is far.
    """
    sums = [(float(a), float(b)) for a, b in zip(_sums(median), _sums(p99), strict=True)]
    consensus = min(range(len(sums)), key=sums.__getitem__)
    scores = tuple(float(score) for score in median[consensus])
    odd = []
    for member, score in enumerate(scores):
        others = [other for index, other in enumerate(scores) if index not in (member, consensus)]
        limit = FACTOR * max(float(np.median(others)), noise) + (NARROW if narrow else WIDE)
        if member != consensus and score > limit:
            odd.append(member)
    return Vote(consensus, scores, tuple(odd))


def _sums(distances: Distances) -> Distances:
    sums: Distances = np.minimum(distances, _FAR).sum(axis=1)
    return sums
