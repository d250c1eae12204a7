"""Properties that a suite has for an operator: each runs the kernel again, on inputs that it has changed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import Array
from kernel_matrix.kit.running import Running


class Values:
    """Arrays of the framework, and options, as attributes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take them by their names."""
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        """Return one.

        Raises:
            AttributeError: there is no such one.
        """
        if name.startswith("_") or name not in self._values:
            raise AttributeError(name)
        return self._values[name]

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Return the names with their values."""
        return iter(self._values.items())

    def changed(self, **others: Any) -> Values:
        """Return them with others in the place of some."""
        return Values({**self._values, **others})


class Run:
    """The kernel, as a property calls it; it is watched as in every run."""

    def __init__(self, running: Running) -> None:
        """Take the case that runs."""
        self._running = running
        self.case: RunningCase = running.case

    def __call__(self, inputs: Values, **axes: Any) -> Values:
        """Run the kernel on inputs, where the case has other values of these axes; return its outputs."""
        running = self._running
        return _given(running, running.run(_arrays(running, inputs), {**running.sizes, **axes}))

    def ask(self, function: str) -> Any:
        """Call a function of the suite in the kernel's process, with the case's facts and inputs; return its value."""
        return self._running.ask(function, self._running.given)


def holds(running: Running) -> None:
    """Check the properties of the suite."""
    op = running.op
    absent = {name: None for name in op.inputs if name not in running.given}
    given, options = _given(running, running.given), running.op.options_of(running.sizes)
    inputs = Values({**absent, **dict(given), **options})
    for path in op.holds:
        module, _, name = path.partition(":")
        getattr(importlib.import_module(module), name)(Run(running), inputs, _given(running, running.out))


def _given(running: Running, values: Mapping[str, Array]) -> Values:
    return Values({name: running.frame.given(np.array(one), "cpu") for name, one in values.items()})


def _arrays(running: Running, inputs: Values) -> dict[str, Array]:
    names = {**running.op.inputs, **running.op.incoming}
    return {name: running.frame.taken(one) for name, one in inputs if name in names and one is not None}
