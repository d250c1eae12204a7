"""Put a watch around the functions by which suites compare, as soon as a module that has one is imported."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from kernel_matrix.job.importing import ChangingFinder
from kernel_matrix.job.suite_canaries import of_torch
from kernel_matrix.job.suite_canaries.asking import Asking, OneAtATime
from kernel_matrix.job.suite_canaries.names import WATCHED


class Tracing:
    """Hold the function by which code learns that a compiler traces it: then nothing is asked."""

    is_compiling: Callable[[], bool] = staticmethod(lambda: False)


def install() -> ChangingFinder:
    """Watch the modules that are imported already, wherever their functions were imported to, and those to come."""
    finder = ChangingFinder()
    replaced: dict[int, tuple[Any, Any]] = {}
    for name in COMPARISONS:
        if (module := sys.modules.get(name)) is not None:
            replaced |= {id(original): (original, new) for original, new in watch(module)}
        else:
            finder.when_imported(name, lambda module: list(watch(module)))
    for module in [*sys.modules.values()] if replaced else []:
        for name, value in [*getattr(module, "__dict__", {}).items()]:
            original, new = replaced.get(id(value), (None, None))
            if original is value and original is not None:
                setattr(module, name, new)
    return finder


def watch(module: ModuleType) -> Iterator[tuple[Any, Any]]:
    """Put a watch around the functions of a module; yield each with the one that takes its place."""
    for comparison in COMPARISONS[module.__name__]:
        *path, name = comparison.function.split(".")
        owner: Any = module
        for part in path:
            owner = getattr(owner, part, None)
        original = getattr(owner, name, None)
        if original is None or hasattr(original, WATCHED):
            continue
        new = _watched(original, comparison)
        setattr(owner, name, new)
        if comparison.prepare is not None:
            Tracing.is_compiling = staticmethod(comparison.prepare(new, name) or Tracing.is_compiling)
        yield original, new


def _watched(original: Any, comparison: Comparison) -> Any:
    """Return a function that does what the original does, and then asks it about faults."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        asking = OneAtATime.asking
        if asking is None or Tracing.is_compiling() or not asking.enter():
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
            if not asking.is_over():
                ask(asking, comparison, (original, call), args, kwargs, result)
            return result
        finally:
            asking.leave()

    setattr(call, WATCHED, True)
    return call


Prepare = Callable[[Any, str], Callable[[], bool] | None]


@dataclass(frozen=True)
class Comparison:
    """A function that compares: the names that its arguments have, or had, and whether it raises or answers.

    It may answer for ``each`` element; then all are read later, and only of the suite's own lines: that waits for the
    device. ``first`` is the place of the result among the arguments. ``prepare`` is called with the function that takes
    its place and with its name, and returns how code learns that it is traced.
    """

    function: str
    call: str
    actual: tuple[str, ...]
    expected: tuple[str, ...]
    asserts: bool
    first: int = 0
    prepare: Prepare | None = None
    each: bool = False


_DESIRED = ("actual", "x"), ("desired", "y")
_OPERATOR = of_torch.prepared


def _method(function: str, call: str, *, asserts: bool) -> Comparison:
    """Return a method whose object is not the result."""
    return Comparison(function, call, ("x",), ("y",), asserts, first=1)


COMPARISONS: Mapping[str, tuple[Comparison, ...]] = {
    "numpy": (
        Comparison("allclose", "np.allclose", ("a",), ("b",), asserts=False),
        Comparison("array_equal", "np.array_equal", ("a1",), ("a2",), asserts=False),
        Comparison("array_equiv", "np.array_equiv", ("a1",), ("a2",), asserts=False),
        Comparison("isclose", "np.isclose", ("a",), ("b",), asserts=False, each=True),
    ),
    "numpy.testing._private.utils": tuple(
        Comparison(name, f"np.testing.{name}", *_DESIRED, asserts=True)
        for name in (
            *("assert_allclose", "assert_array_almost_equal", "assert_almost_equal", "assert_array_equal"),
            *("assert_equal", "assert_array_almost_equal_nulp"),
        )
    ),
    "jax.numpy": (
        Comparison("allclose", "jnp.allclose", ("a",), ("b",), asserts=False),
        Comparison("array_equal", "jnp.array_equal", ("a1",), ("a2",), asserts=False),
        Comparison("isclose", "jnp.isclose", ("a",), ("b",), asserts=False, each=True),
    ),
    "torch": (
        Comparison("allclose", "torch.allclose", ("input",), ("other",), asserts=False, prepare=_OPERATOR),
        Comparison("equal", "torch.equal", ("input",), ("other",), asserts=False, prepare=_OPERATOR),
        Comparison("isclose", "torch.isclose", ("input",), ("other",), asserts=False, prepare=_OPERATOR, each=True),
        Comparison("Tensor.allclose", "torch.allclose", ("self",), ("other",), asserts=False, prepare=_OPERATOR),
        Comparison("Tensor.equal", "torch.equal", ("self",), ("other",), asserts=False, prepare=_OPERATOR),
        Comparison(
            "Tensor.isclose", "torch.isclose", ("self",), ("other",), asserts=False, prepare=_OPERATOR, each=True
        ),
    ),
    "torch.testing._comparison": (
        Comparison("assert_close", "torch.testing.assert_close", ("actual",), ("expected",), asserts=True),
    ),
    "torch.testing._internal.common_utils": (_method("TestCase.assertEqual", "TestCase.assertEqual", asserts=True),),
    pytest.approx.__module__: tuple(
        _method(f"{name}.__eq__", "pytest.approx", asserts=False)
        for name in ("ApproxNumpy", "ApproxSequenceLike", "ApproxMapping", "ApproxScalar")
    ),
}


_APPROX = "pytest.approx"


def ask(
    asking: Asking,
    comparison: Comparison,
    watched: tuple[Any, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
) -> None:
    """Ask a comparison that has passed. Nothing is raised, and arguments that are no arrays are left alone.

    ``watched`` are the original function, and the one that took its place.
    """
    original = watched[0]
    with contextlib.suppress(Exception):
        if not (comparison.asserts or comparison.each or bool(result)):
            return
        first, rest = comparison.first, dict(kwargs)
        values = [*args]
        if callable(rest.get("msg")):
            del rest["msg"]  # it is for a person
        actual = _taken(values, rest, first, comparison.actual)
        if comparison.call == _APPROX:
            _ask_approx(asking, values[0], actual)
            return
        expected = _taken(values, rest, first + 1, comparison.expected)
        before, after = values[:first], values[first + 2 :]
        kind = {"asserts": comparison.asserts, "each": comparison.each}

        def passes(one: Any, other: Any) -> bool:
            try:
                answer = original(*before, one, other, *after, **rest)
            except AssertionError:
                return False
            return comparison.asserts or bool(answer.all() if comparison.each else answer)

        tolerances = _tolerances(before, dict(enumerate(after)) | rest)
        asking.ask(comparison.call, passes, actual, expected, watched=watched, tolerances=tolerances, **kind)


def _tolerances(before: Sequence[Any], rest: Mapping[Any, Any]) -> Hashable:
    """Return what tells a comparison from others of its line; None where that is more than numbers."""
    own = [getattr(one, name, None) for one in before for name in ("precision", "rel_tol")]  # of PyTorch's TestCase
    numbers = {name: value for name, value in rest.items() if not isinstance(value, str)}
    if any(getattr(value, "shape", ()) or callable(value) for value in numbers.values()):
        return None
    return *own, *((name, float(value)) for name, value in numbers.items() if value is not None)


def _taken(values: Sequence[Any], rest: dict[str, Any], place: int, names: Sequence[str]) -> Any:
    """Return an argument by its place or by one of its names, which the rest then lacks."""
    named = [rest.pop(name) for name in names if name in rest]
    return values[place] if len(values) > place else named[0]


def _ask_approx(asking: Asking, approx: Any, actual: Any) -> None:
    """Ask ``pytest.approx``: a part of what it expects is expected with the same tolerances."""
    given = {"rel": approx.rel, "abs": approx.abs, "nan_ok": approx.nan_ok}

    def passes(one: Any, other: Any) -> bool:
        return bool(one == pytest.approx(other, **given))

    asking.ask(_APPROX, passes, actual, approx.expected, asserts=False, whole=True, tolerances=(*given.values(),))
