"""Records of two runs with samples -> the outputs that are now further from the former run than that was from right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernel_matrix.store.record import Record

_INPUTS = "inputs.sha256"
# Both kernels are about as far from the golden: they may be twice that apart. A few ULP more, because the sample is
# small, and another order of summation moves an element by that much.
_FACTOR = 2.0
_ULPS = 4.0


@dataclass(frozen=True)
class Moved:
    """An output of one case in two runs: the 99th percentile of their distance, and how far that may be, in ULP.

    ``former`` is the 99th percentile of the former run's distance to the golden. ``first`` says where the two differ
    first.
    """

    case: str
    output: str
    dtype: str
    former: float
    distance: float
    limit: float
    first: str


@dataclass(frozen=True)
class Movement:
    """The outputs that moved too far, and how many outputs were compared, and have the same bits."""

    too_far: tuple[Moved, ...] = ()
    compared: int = 0
    identical: int = 0


def movement(before: Iterable[Record], now: Iterable[Record]) -> Movement:
    """Compare every output that both runs have samples of, for the same inputs."""
    pairs = list(_pairs(before, now))
    if not pairs:
        return Movement()
    from kernel_matrix.results import ulp  # NumPy takes long to import, and most runs have no samples

    too_far, identical = [], 0
    for former, later, output in pairs:
        key = "/".join(later.case.split("/")[3:])
        distance = ulp.measure(key, output, former.samples[output], later.samples[output])
        identical += distance.identical
        own = former.metrics.get(f"{output}.ulp_p99", math.inf)
        limit = _FACTOR * own + _ULPS
        if distance.p99 > limit and distance.first:
            place = ", ".join(map(str, distance.first.index))
            first = f"[{place}] was {distance.first.one:.9g} and is {distance.first.other:.9g}"
            dtype = former.samples[output].dtype
            too_far.append(Moved(later.case, output, dtype, own, distance.p99, limit, first))
    return Movement(tuple(too_far), len(pairs), identical)


def _pairs(before: Iterable[Record], now: Iterable[Record]) -> Iterator[tuple[Record, Record, str]]:
    """Yield the records of a case in both runs, with each output that can be compared."""
    former = {record.case: record for record in before if record.samples}
    for later in now:
        earlier = former.get(later.case)
        if earlier is None or not later.facts.get(_INPUTS) or earlier.facts.get(_INPUTS) != later.facts[_INPUTS]:
            continue
        for output, sample in later.samples.items():
            other = earlier.samples.get(output)
            if other and (other.dtype, other.shape) == (sample.dtype, sample.shape):
                yield earlier, later, output
