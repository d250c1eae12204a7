"""The settings and strategies of hypothesis for sizes and unusual values. It needs hypothesis, and no harness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from kernel_matrix.tools.fuzz.inside.values import PLACES, Rule

SETTINGS = hypothesis.settings(
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
SMALL = 12  # sizes up to this are tried more often
_POWERS = tuple(2**power for power in range(2, 13))
_PRIMES = (5, 7, 11, 13, 17, 31, 37, 61, 127, 131, 251, 257, 509, 521, 1021, 1031, 2039, 4093)


def around(least: int, most: int, sizes: Iterable[int]) -> list[int]:
    """Return some sizes with their neighbours, those within the bounds."""
    return sorted(near for near in {size + by for size in sizes for by in (-1, 0, 1)} if least <= near <= most)


def edges(least: int, most: int, declared: Iterable[int] = ()) -> list[int]:
    """Return sizes at which something may begin anew: powers of two and declared ones with neighbours; and primes."""
    sizes = {*around(least, most, {*declared, *_POWERS}), *_PRIMES, most}
    return sorted(size for size in sizes if least <= size <= most)


def size_between(least: int, most: int, *often: Sequence[int]) -> st.SearchStrategy[int]:
    """Return the strategy of a size: a small one, one of each sequence of those that are tried often, or any."""
    sequences = [[size for size in sizes if least <= size <= most] for sizes in often]
    kinds = [st.sampled_from(sizes) for sizes in sequences if sizes]
    return st.one_of(st.integers(least, min(most, least + SMALL)), *kinds, st.integers(least, most))


def unusual_values(tensors: Sequence[str], kinds: Sequence[str]) -> st.SearchStrategy[tuple[Rule, ...]]:
    """Return the strategy of unusual values: none, one rule or two, and most of them for all of a tensor."""
    if not tensors or not kinds:
        return st.just(())
    places = st.one_of(st.just(PLACES[0]), st.sampled_from(PLACES))
    rule = st.builds(Rule, st.sampled_from(list(tensors)), st.sampled_from(list(kinds)), places)
    return st.one_of(st.just(()), st.tuples(rule), st.tuples(rule, rule))
