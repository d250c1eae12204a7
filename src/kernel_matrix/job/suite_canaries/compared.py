"""Find the arrays of a call that has found them equal, and ask about each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernel_matrix.job.suite_canaries import of_numpy
from kernel_matrix.job.suite_canaries.asking import Asking
from kernel_matrix.job.suite_canaries.table import Comparison

_APPROX = "pytest.approx"


def ask(
    asking: Asking, comparison: Comparison, original: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> None:
    """Ask a comparison that has passed. Nothing is raised, and arguments that are no arrays are left alone."""
    with contextlib.suppress(Exception):
        if not (comparison.asserts or bool(result)):
            return
        first, rest = comparison.first, dict(kwargs)
        values = [*args]
        actual = _taken(values, rest, first, comparison.actual)
        if comparison.call == _APPROX:
            _ask_approx(asking, comparison.call, original, values[0], actual)
            return
        expected = _taken(values, rest, first + 1, comparison.expected)
        before, after = values[:first], values[first + 2 :]

        def passes(one: Any, other: Any) -> bool:
            try:
                answer = original(*before, one, other, *after, **rest)
            except AssertionError:
                return False
            return comparison.asserts or bool(answer)

        for one, other in _leaves(actual, expected):
            asking.ask(comparison.call, passes, one, other, asserts=comparison.asserts)


def _taken(values: Sequence[Any], rest: dict[str, Any], place: int, names: Sequence[str]) -> Any:
    """Return an argument by its place or by one of its names, which the rest then lacks."""
    named = [rest.pop(name) for name in names if name in rest]
    return values[place] if len(values) > place else named[0]


def _leaves(actual: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the arrays of two arrays, sequences or mappings with what is expected of each."""
    if of_numpy.is_array(actual):
        yield actual, expected
    elif isinstance(actual, Mapping):
        for name in actual:
            yield from _leaves(actual[name], expected[name])
    elif isinstance(actual, (list, tuple)):
        for one, other in zip(actual, expected, strict=True):
            yield from _leaves(one, other)


def _ask_approx(asking: Asking, call: str, original: Any, approx: Any, actual: Any) -> None:
    """Ask ``pytest.approx``: a part of what it expects is expected with the same tolerances."""
    import numpy as np

    def passes(one: Any, other: Any) -> bool:
        expected = other if isinstance(approx.expected, np.ndarray) else np.asarray(other).tolist()
        part = type(approx)(expected, rel=approx.rel, abs=approx.abs, nan_ok=approx.nan_ok)
        return bool(original(part, one if isinstance(approx.expected, np.ndarray) else np.asarray(one).tolist()))

    asking.ask(call, passes, np.asarray(actual), np.asarray(approx.expected), asserts=True)
