"""Measurements of earlier runs -> the timed cases that have become slower, by change points and never by one run."""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernel_matrix.results.history import Measurement

FEWEST = 10  # runs on one device: with fewer, the scatter is not known
AFTER = 3  # runs on each side of a change, so that one slow run is no change
# The penalty of a change point, in units of variance × log(runs). In histories without a change, of 10 to 40 runs with
# normal scatter, it gives about one false change in a hundred; a change by 20 % is seen where the scatter is 3 %.
_PENALTY = 10.0
_LEAST_SCATTER = 0.01  # of the logarithm: times are not known better than that

LACKING = (
    "Slower is not judged: that needs ruptures, which brings SciPy (together 55 MB to fetch): "
    "pip install 'ruptures>=1.1.9'"
)


@dataclass(frozen=True)
class Slower:
    """A timed case whose speed over the baseline has dropped: before the last change and since, and its first run."""

    cell: str
    case: str
    before: float
    after: float
    since: str
    commit: str
    runs: int


def is_available() -> bool:
    """Return whether the library that finds change points is installed."""
    return importlib.util.find_spec("ruptures") is not None


def slower(cell: str, series: Sequence[Measurement], known_until: str) -> list[Slower]:
    """Return the timed cases of a cell that the last change made slower, and that a run could not yet know of.

    ``series`` are the measurements of the cell, the oldest first. Only those on the device of the last one count.
    ``known_until`` is the start of the run that is compared with: a change that already had ``AFTER`` runs then is not
    new. The speed is that over the baseline on the same device in the same minutes, so another load cancels out.
    """
    if not series:
        return []
    comparable = [one for one in series if one.device == series[-1].device]
    changes = []
    for case in series[-1].speed:
        runs = [one for one in comparable if one.speed.get(case, 0.0) > 0]
        place = last_change([math.log(one.speed[case]) for one in runs])
        if place is None or sum(one.started <= known_until for one in runs[place:]) >= AFTER:
            continue
        earlier = runs[_change_before(runs, case, place) : place]
        before, after = (statistics.median(one.speed[case] for one in part) for part in (earlier, runs[place:]))
        middle = math.sqrt(before * after)
        if after < before and sum(one.speed[case] < middle for one in runs[place:]) >= AFTER:
            first = next(one for one in runs[place:] if one.speed[case] < middle)
            changes.append(Slower(cell, case, before, after, first.started, first.commit, len(runs)))
    return changes


def last_change(values: Sequence[float]) -> int | None:
    """Return the place of the last change of the mean; None if there is none, or fewer than ``FEWEST`` values."""
    places = _changes(values)
    return places[-1] if places else None


def too_short(cells: Iterable[Sequence[Measurement]]) -> int:
    """Return how many timed cases have too few runs on their device to be judged."""
    short = 0
    for series in cells:
        for case in series[-1].speed if series else ():
            short += sum(one.device == series[-1].device and case in one.speed for one in series) < FEWEST
    return short


def _changes(values: Sequence[float]) -> list[int]:
    if len(values) < FEWEST:
        return []
    import numpy as np  # it and ruptures are not among the harness' own dependencies
    import ruptures

    penalty = _PENALTY * _variance(values) * math.log(len(values))
    signal = np.asarray(_without_outliers(values)).reshape(-1, 1)
    search = ruptures.Pelt(model="l2", min_size=AFTER, jump=1).fit(signal)
    return [int(place) for place in search.predict(pen=penalty)[:-1]]


def _without_outliers(values: Sequence[float]) -> list[float]:
    """Return the median of every three neighbours: one run that stands out vanishes, and a change that lasts stays."""
    ends = max(0, len(values) - 3)
    return [
        statistics.median(values[(first := min(max(0, place - 1), ends)) : first + 3]) for place in range(len(values))
    ]


def _change_before(runs: Sequence[Measurement], case: str, place: int) -> int:
    """Return where the part before a change begins."""
    earlier = [change for change in _changes([math.log(one.speed[case]) for one in runs]) if change < place]
    return earlier[-1] if earlier else 0


def _variance(values: Sequence[float]) -> float:
    """Return the variance of one run, from the differences of neighbours: a change does not count as scatter."""
    steps = [after - before for before, after in pairwise(values)]
    middle = statistics.median(steps)
    deviation = statistics.median(abs(step - middle) for step in steps) / 0.6745  # of a normal distribution
    return max(deviation / math.sqrt(2), _LEAST_SCATTER) ** 2
