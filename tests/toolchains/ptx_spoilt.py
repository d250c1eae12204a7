"""Spoil each handler of the emulator of PTX, and print which spoilt ones the tests of its opcodes see, as JSON."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import test_ptx_opcodes
from spoilt import Test, spoil_all

from gpu_emulators.nvidia import launch

FUNCTIONS = r"(?!const |static const |struct |enum )[\w:<>*& ]*?"  # they stand in namespaces


def tests() -> Iterator[Test]:
    """Yield each test of opcodes, with each of its parameters."""
    for name, function in inspect.getmembers(test_ptx_opcodes, inspect.isfunction):
        marks = [mark.args for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
        values = [[of(names, one) for one in given] for names, given in marks]
        for chosen in itertools.product(*values) if name.startswith("test_") else ():
            parameters = {key: value for one in chosen for key, value in one.items()}
            test = partial(passes, partial(function, **parameters))
            yield f"{name} {parameters}", test, test


def of(names: Any, one: Any) -> dict[str, Any]:
    words = names.split(",") if isinstance(names, str) else names
    return dict(zip(words, [one] if isinstance(names, str) and len(words) == 1 else one, strict=True))


def passes(test: Callable[[], object]) -> str:
    """Return how a test ends, on the same random numbers each time."""
    test_ptx_opcodes._RANDOM = np.random.default_rng(1)
    try:
        with np.errstate(all="ignore"):
            test()
    except BaseException as error:
        return type(error).__name__
    return "passed"


if __name__ == "__main__":
    spoil_all(launch, tests, whole=True, most_tests=120, begin=FUNCTIONS)
