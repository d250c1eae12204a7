"""Hold a kernel that ran to its float64 golden, under the case's error budget, and to its operator's properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

import growth
import properties
import times
from compiled import record_what_ran
from constants import LOUD, OTHER_CODE, PARAMETERS
from draws import empty_of, inputs_of, nudged_of, rounded_like
from kernel_matrix.job.accuracy import distance, worst
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import digest
from kernel_matrix.kit import hold
from mhc.backends import load
from mhc.toolchain import gfx
from tensors import to_numpy
from tested import UnderTest

REPEATS = 10  # further runs of a timed case, which are not timed; their outputs must have the same bits
SMALLEST = {"tokens": 3, "streams": 3}  # of the cases that run again and again: each further kernel has to be compiled
NUDGES = 3  # how often the golden is computed with nudged inputs, to see how far rounding errors move it


def conform(case: RunningCase, kernel: UnderTest) -> None:
    """Run the kernel on the case's inputs; compare with the golden, and hold the operator's properties.

    Raises:
        AssertionError: a number is outside its budget, or a property does not hold.
        MisbehavedError: the kernel did something else than to compute its outputs.
    """
    inputs = inputs_of(case)
    case.facts["inputs.sha256"] = digest(to_numpy(value) for value in inputs if isinstance(value, torch.Tensor))
    variants = kernel.variants(inputs)
    outputs = {variant: kernel.run(inputs, variant) for variant in variants}
    compare(case, inputs, outputs)
    hold_growth(case, inputs, list(outputs))
    before = case.kernel_memory()
    for variant, out in outputs.items():
        again = kernel.run(inputs, variant, checked=True)
        case.record_repeat(same=has_same_bits(arrays_of(again), arrays_of(out)))
        properties.check(
            case.op, case.direction, partial(kernel.run, variant=variant), inputs, out, again, may_compile_more(case)
        )
    kernel.check_memory(inputs, outputs[""], before)
    if case.canary and (case.action == "run" or case.interpreted):
        kernel.check_through_torch(inputs)
    if case.action == "run" and {name: case.axes[name] for name in SMALLEST} == SMALLEST:
        for variant, out in outputs.items():
            properties.check_each_gradient(partial(kernel.run, variant=variant), inputs, out)
            properties.check_many_tokens(partial(kernel.run, variant=variant), inputs, out)
        kernel.check_in_threads(inputs)
    record_what_ran(case)
    if case.timed:
        with case.quiet():
            race(case, kernel, inputs, arrays_of(outputs[""]))


def may_compile_more(case: RunningCase) -> bool:
    """Return whether the case is to run other code than that it is about: on an emulated GPU few do."""
    is_emulated_gpu = case.action == "emulate" and gfx.emulates(case.target)
    return not is_emulated_gpu or bool(case.axes["tokens"] >= OTHER_CODE)


def race(case: RunningCase, kernel: UnderTest, inputs: Any, expected: Mapping[str, np.ndarray]) -> None:
    """Time the kernel, and hold it to the bits that it gave before and to this process's clock.

    Raises:
        AssertionError: a run gives other bits.
        MisbehavedError: the times are not as the kernel's process says.
    """
    repeats = kernel.race(inputs, REPEATS)
    for repeat in repeats:
        case.record_repeat(same=has_same_bits(repeat, expected))
    for name, values in expected.items():
        same = all(has_same_bits({name: repeat[name]}, {name: values}) for repeat in repeats)
        hold(same, f"{name}: one of {REPEATS} runs one after the other gives other bits")
    times.hold(case, kernel.run, inputs)


def has_same_bits(results: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> bool:
    """Return whether every output has the bits of the expected one; a result may be its bytes alone."""
    return all(
        np.array_equal(results[name].reshape(-1).view(np.uint8), values.reshape(-1).view(np.uint8))
        for name, values in expected.items()
    )


def compare(case: RunningCase, inputs: Any, outputs: dict[str, Any]) -> None:
    """Compare the outputs of every variant with the golden.

    Raises:
        AssertionError: a number is outside its budget.
    """
    reference = load("reference", case.op, case.direction)
    golden = arrays_of(reference.golden(inputs))
    moved = [nudged_of(case, inputs, draw) for draw in range(NUDGES)]
    nudged = [arrays_of(reference.golden(copy)) for copy in moved]
    eager = []
    for given in (inputs, *(rounded_like(inputs, copy) for copy in moved)):
        floor = empty_of(case, given)
        reference.run(given, floor)
        eager.append(arrays_of(floor))
    actual = with_suffixes((suffix, arrays_of(out)) for suffix, out in outputs.items())
    limits = (golden, eager, nudged, units_of(case, golden), steps_of(case, golden, inputs))
    case.compare(
        actual,
        *of_every_variant(list(outputs), *limits),
        axes=axes_of(case, golden),
        shortened=lambda: {
            name: values
            for name, values in arrays_of(reference.golden(without_last_token(inputs))).items()
            if name in PARAMETERS
        },
    )


def hold_growth(case: RunningCase, inputs: Any, variants: list[str]) -> None:
    """Run a case of many tokens with its first tokens alone too, and hold the growth of each output's error.

    Raises:
        AssertionError: an error grows faster than matrix.yaml allows.
    """
    sizes = growth.fewer_than(case.axes["tokens"])
    if not sizes:
        return
    points: dict[str, list[growth.Point]] = {}
    for tokens in sizes:
        for name, point in points_of(case, growth.first_tokens(inputs, tokens), tokens, variants).items():
            points.setdefault(name, []).append(point)
    for name, series in points.items():
        error, noise = case.metrics[f"{name}.rel_fro"], case.metrics[f"{name}.conditioning_rel_fro"]
        series.append(growth.Point(case.axes["tokens"], error, noise))
    growth.hold(points, case.metrics, case.limit_growth)


def points_of(case: RunningCase, inputs: Any, tokens: int, variants: list[str]) -> dict[str, growth.Point]:
    """Return the error of every variant's outputs, and the noise, for inputs of so many tokens."""
    kernel = UnderTest(case, tokens)
    there = kernel.variants(inputs)  # one that is missing is the one that is chosen for so many tokens
    reference = load("reference", case.op, case.direction)
    golden = arrays_of(reference.golden(inputs))
    nudged = [arrays_of(reference.golden(nudged_of(case, inputs, draw))) for draw in range(NUDGES)]
    points = {}
    for variant in variants:
        for name, result in arrays_of(kernel.run(inputs, variant if variant in there else "")).items():
            errors = distance(result, golden[name])
            hold(not errors.nan + errors.inf, f"{name}{variant}: NaN or Inf with {tokens} tokens")
            noise = worst([distance(moved[name], golden[name]) for moved in nudged]).rel_fro
            points[f"{name}{variant}"] = growth.Point(tokens, errors.rel_fro, noise)
    return points


def axes_of(case: RunningCase, golden: dict[str, np.ndarray]) -> dict[str, tuple[str, ...]]:
    """Return the names of the axes of each output, as far as a fault can be put in along one."""
    streams = {"h_post": 1, "h_res": 1, "matrix": 1, "x": 1, "logits": 1, "out": 1, "next_h_post": 1, "next_h_res": 1}
    axes = {}
    for name, values in golden.items():
        if name in PARAMETERS:
            continue
        names = ["tokens", *("other" for _ in values.shape[1:])]
        if name in streams and values.ndim == 3:
            names[streams[name]] = "streams"
        axes[name] = tuple(names)
    return axes


def without_last_token(inputs: Any) -> Any:
    """Return the inputs, with gradients of the last token that are zero: it adds nothing to a sum over tokens."""
    values = inputs._asdict()
    for name, value in values.items():
        if name.startswith("grad_"):
            values[name] = value.clone()
            values[name][-1] = 0
    return type(inputs)(**values)


def of_every_variant(
    suffixes: list[str], golden: Any, eager: Any, nudged: Any, units: Any, steps: Any
) -> tuple[Any, ...]:
    """Return the limits of a comparison for the outputs of every variant: they are the same for all."""

    def repeated(values: dict[str, Any]) -> dict[str, Any]:
        return with_suffixes((suffix, values) for suffix in suffixes)

    return (
        repeated(golden),
        [repeated(values) for values in eager],
        [repeated(values) for values in nudged],
        repeated(units),
        repeated(steps),
    )


def with_suffixes(parts: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return one dictionary of several, where each part's names end with its suffix."""
    return {f"{name}{suffix}": value for suffix, values in parts for name, value in values.items()}


def arrays_of(outputs: Any) -> dict[str, np.ndarray]:
    return {name: to_numpy(tensor) for name, tensor in outputs._asdict().items() if tensor is not None}


def steps_of(case: RunningCase, golden: dict[str, np.ndarray], inputs: Any) -> dict[str, int]:
    """Return the rounded operations in turn behind each output.

    The gradients of parameters are sums over tokens. Each of Sinkhorn's iterations makes, for rows and columns, a
    sum, adds eps and divides. Going back through it makes a product, a sum, a difference and a quotient.
    """
    alone = 1
    if case.op == "sinkhorn":
        alone = inputs.iterations * 2 * (3 if case.direction == "forward" else 3 + 4)
    return {name: case.axes["tokens"] if name in PARAMETERS else alone for name in golden}


def units_of(case: RunningCase, golden: dict[str, np.ndarray]) -> dict[str, float]:
    """Return what "unit scale" is for each output.

    A forward's output in x's dtype follows the scale of x, and ``r`` its reciprocal; coefficients and matrices are of
    order one by themselves. A gradient is a sum over tokens or over the hidden dimension: its unit is its largest
    value, and no less than the unit scale of the gradients that come in (the gradient of a 1×1 Sinkhorn is zero). So it
    is where a token is far larger than the others.
    """
    if case.direction == "backward" or case.axes["scale"] >= LOUD:
        return {name: float(np.abs(values).max(initial=1.0)) for name, values in golden.items()}
    scale = float(case.axes["scale"])
    units = {"h_in": scale, "out": scale, "read": scale, "r": 1 / scale, "s": 1 / scale}
    if case.op == "mhc_single_pass":  # what is read is normalised
        units["h_in"] = 1.0
    return {name: 1.0 if case.op == "sinkhorn" else units.get(name, 1.0) for name in golden}
