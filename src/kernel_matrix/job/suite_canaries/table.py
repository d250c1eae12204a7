"""The functions by which suites compare arrays, by the module that has each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from kernel_matrix.job.suite_canaries import of_torch

Prepare = Callable[[Any, str], Callable[[], bool] | None]


@dataclass(frozen=True)
class Comparison:
    """A function that compares: the names that its arguments have, or had, and whether it raises or answers.

    ``first`` is the place of the result among the arguments. ``prepare`` is called with the function that takes its
    place and with its name, and returns how code learns that it is traced.
    """

    function: str
    call: str
    actual: tuple[str, ...]
    expected: tuple[str, ...]
    asserts: bool
    first: int = 0
    prepare: Prepare | None = None


_DESIRED = ("actual", "x"), ("desired", "y")
_OPERATOR = of_torch.prepared


def _method(function: str, call: str, *, asserts: bool) -> Comparison:
    """Return a method whose object is not the result."""
    return Comparison(function, call, ("x",), ("y",), asserts, first=1)


COMPARISONS: Mapping[str, tuple[Comparison, ...]] = {
    "numpy": (
        Comparison("allclose", "np.allclose", ("a",), ("b",), asserts=False),
        Comparison("array_equal", "np.array_equal", ("a1",), ("a2",), asserts=False),
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
    ),
    "torch": (
        Comparison("allclose", "torch.allclose", ("input",), ("other",), asserts=False, prepare=_OPERATOR),
        Comparison("equal", "torch.equal", ("input",), ("other",), asserts=False, prepare=_OPERATOR),
        Comparison("Tensor.allclose", "torch.allclose", ("self",), ("other",), asserts=False, prepare=_OPERATOR),
        Comparison("Tensor.equal", "torch.equal", ("self",), ("other",), asserts=False, prepare=_OPERATOR),
    ),
    "torch.testing._comparison": (
        Comparison("assert_close", "torch.testing.assert_close", ("actual",), ("expected",), asserts=True),
    ),
    "torch.testing._internal.common_utils": (_method("TestCase.assertEqual", "TestCase.assertEqual", asserts=True),),
    pytest.approx.__module__: (
        _method("ApproxNumpy.__eq__", "pytest.approx", asserts=False),
        _method("ApproxSequenceLike.__eq__", "pytest.approx", asserts=False),
    ),
}
