"""The search in one test with the fixture ``matrix``, for a package without an adapter.

    @fuzzed(rows=300, columns=(8, 1300))
    def test_norm(matrix, rows, columns):
        x = matrix.draw("x", (rows, columns))
        matrix.compare(norm(x), exact_norm(x), eager=plain_norm(x), name="y")

It needs hypothesis, and of the harness only what a job has.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kernel_matrix.job.case import BlindComparisonError, OutOfBudgetError
from kernel_matrix.job.suite_compare import Comparer
from kernel_matrix.tools.fuzz.inside import values as unusual
from kernel_matrix.tools.fuzz.inside.drawing import SETTINGS, edges, size_between, unusual_values
from kernel_matrix.tools.fuzz.inside.values import KINDS, NOT_FINITE, Rule

NAME, MINUTES = "KERNEL_MATRIX_FUZZ", "KERNEL_MATRIX_FUZZ_MINUTES"  # variables: run one case again; search longer
_VIEWS = "views"
_USUAL = 4  # the size of the first case, which has usual values
_FINITE = tuple(kind for kind in KINDS if kind not in NOT_FINITE)
_UNJUDGED = re.compile(
    "no budget follows|so nothing is compared|[Ss]ay why: source="
)  # golden or plain code is no measure

Test = Callable[..., None]


class _OverError(BaseException):
    """The time is over."""


@dataclass(frozen=True)
class _Case:
    """The sizes, whether arrays are views, the unusual values, and the seed."""

    sizes: Mapping[str, int]
    views: bool = False
    rules: tuple[Rule, ...] = ()
    seed: int = 0

    @property
    def name(self) -> str:
        words = [*(f"{axis}={size}" for axis, size in self.sizes.items()), *([_VIEWS] if self.views else [])]
        return f"fuzz:{','.join(words)}:{unusual.write(self.rules)}:{self.seed}"

    @classmethod
    def read(cls, name: str, axes: Collection[str]) -> _Case:
        """Return the case of a name; ``axes`` are the sizes that the test has.

        Raises:
            ValueError: it is none.
        """
        found = re.fullmatch(r"fuzz:([^:]*):([^:]+):(\d+)", name)
        words = [word for word in found[1].split(",") if word] if found else []
        sizes = dict(word.split("=") for word in words if re.fullmatch(r"\w+=\d+", word))
        if not found or {*words} - {f"{axis}={size}" for axis, size in sizes.items()} - {_VIEWS} or {*sizes} != {*axes}:
            raise ValueError(f"{NAME}={name}: a case of this test is called fuzz:{'=N,'.join(axes)}=N:VALUES:SEED")
        return cls(
            {axis: int(size) for axis, size in sizes.items()}, _VIEWS in words, unusual.read(found[2]), int(found[3])
        )


class _Fuzzed(Comparer):
    """Compare the numbers of one case, for which the test draws unusual values, and views in place of whole arrays."""

    def __init__(self, of_test: Comparer, case: _Case) -> None:
        super().__init__(f"{of_test.key}/{case.name}", None)
        self._accuracy = of_test._accuracy
        self._case = case
        self.drawn: dict[str, None] = {}

    def draw(
        self, name: str, shape: Sequence[int], *, scale: float = 1.0, mean: float = 0.0
    ) -> npt.NDArray[np.float64]:
        """Return what the test draws, with the unusual values in their places."""
        values = super().draw(name, shape, scale=scale, mean=mean)
        self.drawn[name] = None
        for rule in self._case.rules:
            if rule.tensor == name:
                rule.change(values)
        self.inputs(values)
        laid: npt.NDArray[np.float64] = self.laid(values)
        return laid

    def laid(self, array: Any) -> Any:
        """Return the array as this case has arrays: as it is, or as a view whose elements lie two apart."""
        if not self._case.views or not array.ndim:
            return array
        room = np.empty((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        view = room[..., 1::2]
        view[...] = array
        return view


@dataclass
class _Search:
    """The cases of one test."""

    test: Callable[[Comparer, Mapping[str, int]], None]
    matrix: Comparer
    bounds: Mapping[str, tuple[int, int]]
    examples: int
    drawn: dict[str, None] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)  # the facts of the case whose figures the test has

    def run(self) -> None:
        """Try the usual case and others, or the one that is named; raise what the smallest raises that fails."""
        if name := os.environ.get(NAME):
            case = _Case.read(name, self.bounds)
            self.attempt(case)
            if absent := {rule.tensor for rule in case.rules} - self.drawn.keys():
                raise ValueError(f"{name}: the test draws no {sorted(absent)[0]!r}; it draws {', '.join(self.drawn)}")
            return
        self.attempt(_Case({axis: min(most, max(least, _USUAL)) for axis, (least, most) in self.bounds.items()}))
        minutes = _minutes(os.environ.get(MINUTES, "0"))
        ends = time.monotonic() + 60 * minutes
        failed: list[BaseException] = []

        @hypothesis.seed(int(time.time()) if minutes else 0)
        @hypothesis.settings(SETTINGS, max_examples=10**7 if minutes else self.examples)
        @hypothesis.given(self.cases())
        def others(case: _Case) -> None:
            if minutes and not failed and time.monotonic() > ends:
                raise _OverError
            try:
                self.attempt(case)
            except Exception as error:
                failed.append(error)
                raise

        try:
            others()
        except _OverError:
            return

    def cases(self) -> st.SearchStrategy[_Case]:
        """Return the strategy of the cases."""
        sizes = {axis: size_between(least, most, edges(least, most)) for axis, (least, most) in self.bounds.items()}
        rules = unusual_values(tuple(self.drawn), _FINITE)
        return st.builds(_Case, st.fixed_dictionaries(sizes), st.booleans(), rules, st.integers(0, 999))

    def attempt(self, case: _Case) -> None:
        """Run the test on a case. One of unusual values that the comparison cannot judge counts as passed."""
        compared = _Fuzzed(self.matrix, case)
        try:
            self.test(compared, case.sizes)
            if compared.faults:
                raise OutOfBudgetError(f"the test caught the error of a comparison: {compared.faults[0]}")
        except Exception as error:
            if case.rules and (isinstance(error, BlindComparisonError) or _UNJUDGED.search(str(error))):
                return
            error.add_note(f"{case.name}\nAgain: {NAME}='{case.name}' and this test")
            self._keep(compared)
            raise
        finally:
            self.drawn |= compared.drawn
        self._keep(compared)

    def _keep(self, compared: _Fuzzed) -> None:
        """Give the test the figures of this case, and no others: the last case is the one that fails, if any does."""
        self.matrix.metrics.clear()
        self.matrix.metrics.update(compared.metrics)
        for name in self.kept:
            self.matrix.facts.pop(name, None)
        self.kept = compared.facts
        self.matrix.facts.update(self.kept)


def _minutes(text: str) -> float:
    """Return how long a search takes by its variable.

    Raises:
        ValueError: it is no time.
    """
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 <= minutes < math.inf:
        raise ValueError(f"{MINUTES}={text}: write for how many minutes to search, such as 5")
    return minutes


def fuzzed(*, examples: int = 50, **sizes: int | tuple[int, int]) -> Callable[[Test], Test]:
    """Run a test with the fixture ``matrix`` for many sizes and values.

    Each size is an argument of the test, with the largest value or the least and the largest. An ordinary run tries
    the same ``examples`` each time.
    """
    bounds = {axis: size if isinstance(size, tuple) else (1, size) for axis, size in sizes.items()}

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(*, matrix: Comparer, **fixtures: Any) -> None:
            _Search(lambda own, chosen: test(matrix=own, **chosen, **fixtures), matrix, bounds, examples).run()

        del run.__dict__["__wrapped__"]  # pytest would ask for the sizes as fixtures
        kept = [parameter for name, parameter in signature.parameters.items() if name not in bounds]
        run.__dict__["__signature__"] = signature.replace(parameters=kept)
        return run

    return decorate
