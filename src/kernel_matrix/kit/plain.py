"""Run the plain code of an operator: in float64 for the golden, in fp32 and rounded once for the baseline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import Array
from kernel_matrix.kit import draws
from kernel_matrix.kit.calls import as_called
from kernel_matrix.kit.description import Operator
from kernel_matrix.kit.frameworks import framework

T = TypeVar("T")
Golden = npt.NDArray[np.float64]
Kinds = Mapping[str, "np.dtype[np.generic]"]


class Numbers(NamedTuple):
    """The numbers that results are compared with, in the order that ``RunningCase.compare`` has.

    ``more`` makes further ones, of a nudge and then of other orders of addition. They can only widen a budget: a result
    inside without them needs none.
    """

    golden: dict[str, Golden]
    baseline: list[dict[str, Array]]
    nudged: list[dict[str, Golden]]
    units: dict[str, float]
    steps: dict[str, int]
    more: Callable[[], Numbers] | None = None

    @property
    def kinds(self) -> Kinds:
        """The dtypes of the results."""
        return {name: one.dtype for name, one in self.baseline[0].items()}

    @property
    def finite(self) -> bool:
        """True if plain code gives finite numbers alone."""
        every: list[Mapping[str, Array]] = [self.golden, *self.nudged, *self.baseline]
        return all(bool(np.isfinite(one.astype(np.float64)).all()) for values in every for one in values.values())

    def of(self, names: Collection[str]) -> Numbers:
        """Return those of these results."""

        def chosen(values: Mapping[str, T]) -> dict[str, T]:
            return {name: values[name] for name in values if name in names}

        baseline, nudged = [chosen(one) for one in self.baseline], [chosen(one) for one in self.nudged]
        return Numbers(chosen(self.golden), baseline, nudged, chosen(self.units), chosen(self.steps))

    def of_whole_numbers(self) -> Numbers:
        """Return what results of whole numbers are compared with: the very ones that plain code gives in fp32."""
        golden: dict[str, Golden] = {name: one.astype(np.float64) for name, one in self.baseline[0].items()}
        units = {name: largest(one) or 1.0 for name, one in golden.items()}
        return Numbers(golden, [dict(golden)], [golden], units, self.steps)

    def of_variants(self, names: Sequence[str]) -> Numbers:
        """Return the same for the results of every variant, whose names end with the variant's."""

        def every(values: Mapping[str, T]) -> dict[str, T]:
            return {f"{name}{variant}": one for variant in names for name, one in values.items()}

        baseline, nudged = [every(one) for one in self.baseline], [every(one) for one in self.nudged]
        return Numbers(every(self.golden), baseline, nudged, every(self.units), every(self.steps))


def numbers(
    case: RunningCase,
    op: Operator,
    values: Mapping[str, Array],
    sizes: Mapping[str, Any],
    asked: Sequence[str],
    nudges: int,
) -> Numbers:
    """Return what the results for these values are compared with."""
    kinds = {name: values[name].dtype for name in asked}
    kinds = kinds or {name: draws.dtype_of(kind, case.axes) for name, kind in op.outputs_of(sizes).items()}
    golden = exact(op, draws.wide(values), sizes, asked)
    moved = [draws.nudged(case, values, draw) for draw in range(nudges)]
    shifted = [exact(op, one, sizes, asked) for one in moved]
    baseline = [
        rounded(of_baseline(op, one, sizes, asked, kinds), kinds)
        for one in (values, *(draws.rounded_like(one, values) for one in moved))
    ]
    units = op.units(sizes, golden) if op.units else {n: largest(one) or 1.0 for n, one in golden.items()}
    return Numbers(golden, baseline, shifted, dict(units), {name: _steps(op, name, sizes, asked) for name in golden})


def largest(values: Array) -> float:
    """Return the largest absolute value."""
    return float(np.abs(values).max(initial=0.0))


class PlainCodeError(Exception):
    """Plain code raised an error."""


def exact(
    op: Operator, values: Mapping[str, Array], sizes: Mapping[str, Any], asked: Sequence[str]
) -> dict[str, Golden]:
    """Return what plain code gives for values of float64, as float64."""
    return {name: np.asarray(one, np.float64, order="C") for name, one in computed(op, values, sizes, asked).items()}


def computed(
    op: Operator, values: Mapping[str, Array], sizes: Mapping[str, Any], asked: Sequence[str]
) -> dict[str, Array]:
    """Return what plain code gives for values, in the dtype in which it computes.

    Raises:
        PlainCodeError: it takes no such values, as NaN or no row.
    """
    frame = framework(op.framework)
    arrays = {name: frame.given(np.array(one), "cpu") for name, one in values.items()}
    incoming = {name: arrays.pop(name) for name in op.incoming if name in arrays}

    def call(given: dict[str, Any]) -> dict[str, Any]:
        return _named(op, op.reference(*(given.get(name) for name in op.inputs), **op.options_of(sizes)), sizes)

    try:
        with np.errstate(all="ignore"):
            [results] = frame.results(call, arrays, asked, incoming)
    except Exception as error:
        raise PlainCodeError(f"{type(error).__name__}: {error}") from error
    zeros = {name: np.zeros_like(values[name]) for name in asked}  # of an input that plain code does not use
    return {name: zeros[name] if one is None else frame.taken(one) for name, one in results.items()}


def _named(op: Operator, results: Any, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results by their names.

    Raises:
        TypeError: there are more or fewer than the description has.
    """
    there = op.outputs_of(sizes)
    if isinstance(results, dict):
        several = [results.get(name) for name in there]
    else:
        several = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(several) == len(op.outputs):
            several = [one for name, one in zip(op.outputs, several, strict=True) if name in there]
    if len(several) != len(there) or any(one is None for one in several):
        raise TypeError(f"the plain code of {op.name} does not give its outputs {', '.join(there)}")
    return dict(zip(there, several, strict=True))


def of_baseline(
    op: Operator, values: Mapping[str, Array], sizes: Mapping[str, Any], asked: Sequence[str], kinds: Kinds
) -> dict[str, Array]:
    """Return what the baseline gives: a function of the description, or plain code in fp32."""
    if op.baseline is None:
        return computed(op, _computing(op, values), sizes, asked)
    frame, there = framework(op.framework), op.outputs_of(sizes)
    into = {n: np.full(kind.shape(sizes), np.nan).astype(kinds[n]) for n, kind in there.items() if op.writes}
    given = {name: frame.given(np.array(one), "cpu") for name, one in values.items()}
    out = {name: frame.given(one, "cpu") for name, one in into.items()}
    results = op.baseline(
        *as_called(op.inputs, given), *as_called(op.outputs, out, there=op.writes), **op.options_of(sizes)
    )
    return {name: frame.taken(one) for name, one in (out or _named(op, results, sizes)).items()}


def _computing(op: Operator, values: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return values as the baseline computes with them: narrower ones are exact in fp32."""
    if op.compute == "case":
        return values
    narrow = {name for name, one in values.items() if not draws.is_whole(one) and one.dtype.itemsize < 4}
    return {name: one.astype(np.float32) if name in narrow else one for name, one in values.items()}


def rounded(results: Mapping[str, Array], kinds: Kinds) -> dict[str, Array]:
    """Return results in their dtypes, rounded once."""
    with np.errstate(over="ignore"):
        return {
            name: one if one.dtype == kinds[name] else one.astype(np.float64).astype(kinds[name])
            for name, one in results.items()
        }


def _steps(op: Operator, name: str, sizes: Mapping[str, Any], asked: Sequence[str]) -> int:
    """Return how many summands an element has: the product of the axes that other arrays have and it has not."""
    if op.steps:
        return op.steps(sizes, name) if callable(op.steps) else op.steps
    floats = [kind for kind in (*op.inputs.values(), *(op.outputs.values() if asked else ())) if not kind.whole]
    own = (op.inputs if asked else op.outputs)[name].axes
    gone = {axis for kind in floats for axis in kind.axes if isinstance(axis, str)} - set(own)
    return int(np.prod([sizes[axis] for axis in gone], dtype=np.int64)) if gone else 1
