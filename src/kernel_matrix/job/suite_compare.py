"""Compare what a suite's own test computed with a golden: the object behind the fixture ``matrix``."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.job import defaults, doubts, inputs, sample
from kernel_matrix.job.accuracy import Budget, Golden, measure
from kernel_matrix.job.arrays import as_floats
from kernel_matrix.job.budget import Rules, cap_at, rules_of
from kernel_matrix.job.canaries import Subject, try_canaries
from kernel_matrix.job.case import BlindComparisonError, OutOfBudgetError
from kernel_matrix.job.comparison import Comparison, Noise, compare_outputs
from kernel_matrix.job.inputs import DTYPES, Array
from kernel_matrix.job.small_rows import faults_of_small_lines, faults_of_small_rows
from kernel_matrix.job.test_names import SAME

__tracebackhide__ = True  # pytest shows the line of the test that compares, and not what is below it
_DIRECTION = "tests"  # whose cap holds
_MOST_STEPS = 2**24
_FEWEST_FINITE = 0.01  # of the elements of a golden
_SOURCE = 20  # characters that the source of a declared budget has at least


class ChangedInputError(Exception):
    """An input of the test is not what it was when the test named it."""


class Comparer:
    """Compare arrays of one test, and keep the figures of each comparison.

    ``rules`` are matrix.yaml's ``accuracy``; outside a job they are the harness's defaults.
    """

    def __init__(self, key: str, rules: Mapping[str, Any] | None, *, strict: bool = True) -> None:
        """``key`` names the test: the inputs that :meth:`draw` returns follow from it.

        ``strict`` is for kernels that people have written to be exact: it limits misrounded elements, and doubts what
        is inside the budget (:mod:`kernel_matrix.job.doubts`).
        """
        self.key = key
        self.metrics: dict[str, float] = {}
        self.facts: dict[str, str] = {}
        self.samples: dict[str, dict[str, Any]] = {}
        own = {"misrounded": defaults.MISROUNDED} if strict else {}
        self._accuracy, self._strict = defaults.accuracy(_DIRECTION, {**own, **(rules or {})}), strict
        self.faults: list[str] = []  # of this test's comparisons: they stay where the test catches an error
        self._elements = 0
        self._inputs: dict[int, tuple[Any, str]] = {}  # each input with its digest, by the identity of the object

    def draw(
        self, name: str, shape: Sequence[int], *, scale: float = 1.0, mean: float = 0.0
    ) -> npt.NDArray[np.float64]:
        """Return values of variance ``scale``² around ``mean``, float64: the same on every machine for this test."""
        values = inputs.normal(f"{self.key}/{name}", tuple(shape)) * scale + mean
        self.inputs(values)
        return values

    def inputs(self, *arrays: Any) -> None:
        """Say which inputs the test has, once more after it has changed one.

        Results of other machines are compared with this one only for equal inputs.
        """
        self._inputs |= {id(array): (array, _digest(array)) for array in arrays}
        self.facts["inputs.sha256"] = inputs.digest(as_floats(array, "an input") for array, _ in self._inputs.values())

    def compare(
        self,
        actual: Any,
        golden: Any,
        *,
        eager: Any = None,
        name: str = "out",
        nudged: Any = None,
        budget: float | None = None,
        relative: float | None = None,
        source: str = "",
        unit: float | None = None,
        steps: int = 1,
    ) -> None:
        """Hold ``actual`` to its budget, and see that the comparison finds faults that are put in.

        The comment at the end of this module says what each argument is.

        Raises:
            OutOfBudgetError: an AssertionError: the result is outside its budget.
            ChangedInputError: an input is not what it was.
            BlindComparisonError: the comparison does not find a fault that was put in.
            ValueError: shapes differ, the name was used already, or nothing says what the budget is.
            TypeError: an argument is no array of floating-point numbers.
        """
        with self._counted(name):
            self._check_inputs(name)
            result, exact = _pair(name, actual, golden, declared=budget is not None)
            limitless = ~np.isfinite(exact)
            compared_as, wide = _finite(result, limitless), _finite(exact, limitless)
            shared = name, compared_as, wide
            last = source, _unit(name, unit, wide), _steps(name, steps)
            if budget is not None:
                compared, faults = self._with_declared(*shared, budget, relative, *last)
            else:
                compared, faults = self._with_noise(*shared, eager, nudged, limitless, result, *last)
            self._record(name, compared, result, declared=budget is not None)
            if faults := [*_missing(result, exact), *faults]:
                raise OutOfBudgetError("; ".join(f"{name}: {fault}" for fault in faults))
            self._try_canaries(name, compared)

    @contextlib.contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        """Keep the error of a comparison, or of one that could not be made: it counts where the test catches it."""
        try:
            yield
        except Exception as error:
            text = str(error) or type(error).__name__
            self.faults.append(text if text.startswith(f"{name}: ") else f"{name}: {text}")
            raise

    def check(self, kernel: Any, reference: Any, inputs: Mapping[str, Any], **words: Any) -> None:
        """Run a kernel in a process of its own, under every check that follows from its inputs.

        ``kernel`` is a function at the top of a module, or ``module:function``; ``reference`` is plain code with the
        same parameters, and ``inputs`` are arrays by their names. ``rows`` names the inputs whose first axis counts
        rows. A result of floating-point numbers has the dtype of the first input that has such. The other words are
        those of a description (``differentiable``, ``writes``, ``in_place``, ``without``).

        Raises:
            AssertionError: a number is wrong.
            MisbehavedError: the kernel did something else than to compute its outputs.
            ValueError: the kernel cannot be imported by another process, or a word does not fit.
        """
        name = str(words.get("name", "kernel"))
        with self._counted(name):
            self._check_inputs(name)
            checking = importlib.import_module("kernel_matrix.kit.checking")  # it imports this module
            checking.check(self, kernel, reference, inputs, **words)

    def limits(self, directions: Iterable[str]) -> dict[str, Any]:
        """Return the limits of this test, for other directions."""
        return {**self._accuracy, "caps": dict.fromkeys(directions, self._accuracy["caps"][_DIRECTION])}

    def _check_inputs(self, name: str) -> None:
        """Check the name of an output, and that the inputs are what they were when the test named them.

        Raises:
            ChangedInputError: one is not.
            ValueError: the name is none, or was used already.
        """
        self._check_name(name)
        if any(_digest(array) != digest for array, digest in self._inputs.values()):
            raise ChangedInputError(
                "an input changed after the test had named it, and a golden that is made from it follows the change: "
                "give the kernel a copy. A test that changes an input itself calls matrix.inputs() afterwards"
            )

    def _rules_of(self, output: str) -> Rules:
        operator = self.key.partition("/")[0].removesuffix(f".{_DIRECTION}")
        return rules_of(self._accuracy, operator, _DIRECTION, output)

    def _check_name(self, name: str) -> None:
        if not name.isidentifier() or name in ("artifact", "time", "canary"):
            raise ValueError(f"{name!r} is no name of an output: write letters, digits and '_'")
        if f"{name}.elements" in self.metrics:
            raise ValueError(f"this test has compared {name!r} already: give each comparison another name")

    def _with_noise(
        self,
        name: str,
        result: Array,
        golden: Golden,
        eager: Any,
        nudged: Any,
        limitless: npt.NDArray[np.bool_],
        actual: Array,
        source: str,
        unit: float,
        steps: int,
    ) -> tuple[Comparison, list[str]]:
        """Compare by the budget that follows from the error of the baseline; return the faults too."""
        baseline = [{name: copy} for copy in _plain(name, result, eager, actual, limitless)]
        moved = [{name: _finite(as_floats(one, "nudged").astype(np.float64), limitless)} for one in _several(nudged)]
        compared = compare_outputs(
            {name: result},
            {name: golden},
            baseline,
            moved or [{name: golden}],
            {name: unit},
            {name: steps},
            self._rules_of,
        )
        copies = [copy[name] for copy in baseline], [copy[name] for copy in moved]
        result = np.nan_to_num(result.astype(np.float64), posinf=0.0, neginf=0.0)  # these are a fault already
        of_small = faults_of_small_lines if self._strict else faults_of_small_rows
        small = of_small(result, golden, *copies, steps, self._rules_of(name))
        faults = [*compared[name].faults, *small]
        return compared[name], [*faults, *self._doubts(name, compared[name], *copies, source, known=bool(faults))]

    def _doubts(
        self, name: str, compared: Comparison, eager: list[Array], nudged: list[Golden], source: str, *, known: bool
    ) -> list[str]:
        """Return what is wrong with a result inside its budget.

        Raises:
            ValueError: the golden or the baseline is none, and the result is inside the budget all the same.
        """
        if not self._strict:
            return []
        result, golden, steps = compared.result, compared.golden, compared.steps
        finite = np.nan_to_num(result, posinf=0.0, neginf=0.0) if result.dtype.kind == "f" else result
        if compared.errors.max_abs and any(np.array_equal(one, result) for one in eager):
            self.facts[SAME + name] = "the result bit by bit: the budget follows from the same error"
        seen = (doubts.one_sided, doubts.unwritten_zeros, doubts.narrow_result)
        found = [fault for fault in (doubt(finite, golden, eager) for doubt in seen) if fault]
        if source:
            self.facts[f"budget.{name}"] = source
        elif not found and not known:
            wrong = doubts.narrow_golden(result, golden, eager, steps) or doubts.far_nudged(golden, nudged)
            wrong = wrong or doubts.far_eager(result, golden, eager, compared.noise.conditioning.rel_fro, steps)
            if wrong:
                raise ValueError(f"{name}: {wrong}")
        return found

    def _with_declared(
        self,
        name: str,
        result: Array,
        golden: Golden,
        budget: float,
        relative: float | None,
        source: str,
        unit: float,
        steps: int,
    ) -> tuple[Comparison, list[str]]:
        """Compare by a budget that the test declares; return the faults too."""
        if len(source.split()) < 2 or len(source) < _SOURCE:
            raise ValueError(f"{name}: a declared budget needs its source: a sentence that says where it comes from")
        if not 0 < budget < math.inf:
            raise ValueError(f"{name}: the budget is {budget}")
        if relative is not None and not 0 < relative < 1:
            raise ValueError(f"{name}: relative is {relative}: from 1 an output of zeros would pass")
        norm = float(np.linalg.norm(golden))
        if relative is None:  # what an error of the budget in every element makes
            relative = min(budget * math.sqrt(golden.size) / norm, 0.5) if norm else budget
        self.facts[f"budget.{name}"] = source
        none = measure(golden, golden)
        largest = float(np.abs(golden).max(initial=0.0))
        cap = cap_at(self._rules_of(name).cap * unit, largest, result.dtype.itemsize)
        allowed = Budget(min(budget, cap), relative)
        if wrong := doubts.wide_budget(golden, *dataclasses.astuple(allowed)) if self._strict else "":
            raise ValueError(f"{name}: {wrong}")
        self.metrics |= {f"{name}.declared_max_abs": budget, f"{name}.declared_rel_fro": relative}
        compared = Comparison(result, golden, measure(result, golden), Noise(none, none), allowed, unit, steps)
        return compared, compared.faults

    def _record(self, name: str, compared: Comparison, result: Array, *, declared: bool) -> None:
        """Record the figures; and a sample of the result, where others can have the same inputs."""
        figures = compared.metrics(name)
        if declared:  # no noise was measured
            figures.pop(f"{name}.noise_ratio", None)
        self.metrics |= figures
        self._elements += compared.errors.elements
        self.metrics["elements"] = float(self._elements)
        if self._inputs and result.dtype in DTYPES.values():
            self.samples[name] = sample.take(self.key, name, result)

    def _try_canaries(self, name: str, compared: Comparison) -> None:
        """Repeat the comparison with faults that are put into the result."""
        subject = Subject(compared.result, compared.golden, compared.budget)
        canaries = try_canaries({name: subject}, {})
        caught = sum(canary.caught for canary in canaries)
        self.metrics["canary.injected"] = self.metrics.get("canary.injected", 0.0) + len(canaries)
        self.metrics["canary.caught"] = self.metrics.get("canary.caught", 0.0) + caught
        if missed := [canary.fault for canary in canaries if not canary.caught]:
            self.facts["canary.missed"] = "; ".join(f"{fault} in {name}" for fault in missed)
            raise BlindComparisonError(f"{name}: the comparison does not find a fault that was put in: {missed[0]}")


def _pair(name: str, actual: Any, golden: Any, *, declared: bool) -> tuple[Array, Golden]:
    """Return the result, and the golden as float64.

    Raises:
        ValueError: the golden is narrower and no budget is declared, or the shapes differ.
        TypeError: one of them is no array of floating-point numbers.
    """
    result, exact = as_floats(actual, "the result"), as_floats(golden, "the golden")
    if np.shares_memory(result, exact):
        raise ValueError(f"{name}: the golden is the result itself")
    if not declared and exact.dtype != np.float64:
        raise ValueError(f"the golden is {exact.dtype}: give it as float64, or declare a budget with its source")
    if result.shape != exact.shape:
        raise ValueError(f"{name}: the result has shape {result.shape} and the golden {exact.shape}")
    finite = int(np.isfinite(exact.astype(np.float64)).sum())
    if exact.size and finite <= _FEWEST_FINITE * exact.size:
        raise ValueError(f"{name}: {finite or 'no'} element of the golden is finite, so nothing is compared")
    return result, exact.astype(np.float64)


def _unit(name: str, unit: float | None, golden: Golden) -> float:
    """Return the unit of an output: by default the golden's largest value, or one.

    Raises:
        ValueError: it is larger than that, so that the cap would hold nothing.
    """
    largest = max(1.0, float(np.abs(golden).max(initial=0.0)))
    if unit is not None and not 0 < unit <= largest:
        raise ValueError(f"{name}: unit is {unit}, and the golden's largest value is {largest:.3g}: give no larger one")
    return largest if unit is None else float(unit)


def _steps(name: str, steps: int) -> int:
    """Return how many rounded operations make an element.

    Raises:
        ValueError: it is no such number: a chain of additions of fp32 no longer grows after 2**24 of them.
    """
    if not 1 <= steps <= _MOST_STEPS:
        raise ValueError(f"{name}: steps is {steps}: from 1 to 2**24 rounded operations make an element")
    return steps


def _finite(values: Any, limitless: npt.NDArray[np.bool_]) -> Any:
    """Return the values with zeros where the golden is Inf or NaN."""
    return np.where(limitless, np.zeros((), values.dtype), values) if limitless.any() else values


def _digest(array: Any) -> str:
    return inputs.digest([as_floats(array, "an input")])


def _plain(name: str, result: Array, eager: Any, actual: Array, limitless: npt.NDArray[np.bool_]) -> list[Array]:
    """Return the results of plain code, with zeros where the golden is Inf or NaN.

    Raises:
        ValueError: there is none, or one that no budget follows from.
    """
    if eager is None:
        raise ValueError(
            f"{name}: nothing says what the budget is: give eager=, the result of plain code in the same dtype, "
            "or budget= with its source="
        )
    given = [as_floats(one, "eager") for one in _several(eager)]
    for one in given:
        if np.shares_memory(one, actual):
            raise ValueError(f"{name}: eager is the result itself, so the budget would follow from its own error")
        if one.dtype != result.dtype:
            raise ValueError(f"{name}: the result has the dtype {result.dtype}, and eager has {one.dtype}")
    plain = [_finite(one, limitless) for one in given]
    if bad := sum(int(np.count_nonzero(~np.isfinite(copy.astype(np.float64)))) for copy in plain):
        raise ValueError(f"{name}: {bad} elements of eager are NaN or Inf, so no budget follows from its error")
    return plain


def _missing(result: Array, exact: Golden) -> list[str]:
    """Return a sentence for each of Inf and NaN if the result has it not everywhere where the golden has."""
    wide = result.astype(np.float64)
    wrong = {"Inf": np.isinf(exact) & (wide != exact), "NaN": np.isnan(exact) & ~np.isnan(wide)}
    count = {"Inf": int(np.isinf(exact).sum()), "NaN": int(np.isnan(exact).sum())}
    return [
        f"{spots.sum()} of the golden's {count[word]} {word} are not there"
        for word, spots in wrong.items()
        if spots.any()
    ]


def _several(given: Any) -> list[Any]:
    """Return a list or tuple as a list, nothing as an empty one, and anything else as a list of one."""
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


# The arguments of ``compare``:
#
# actual    the result, in the dtype that is tested
# golden    the exact result as float64; with a declared budget it may have another dtype
# eager     what plain code gives in the dtype of ``actual``, or a list of such results: the budget follows from their
#           error, as ``min(cap, factor * error)``
# name      the name of this output: another one for each comparison of a test
# nudged    a golden, or several, of inputs that are off by a rounding error: where the golden itself moves so much, no
#           result is better
# budget    without ``eager``, the largest absolute error, declared here
# relative  with ``budget``, the largest error relative to the golden's Frobenius norm; by default what follows from
#           ``budget``
# source    where ``budget`` comes from, as a sentence; or why ``eager`` is far off by itself
# unit      what "unit scale" is for this output, and the cap's unit: the golden's largest value, or one, at most, which
#           is the default too
# steps     how many rounded operations make an element, one after the other
