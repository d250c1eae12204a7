"""Compare outputs with their golden: the errors, the noise that a budget is made from, and the budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_matrix.job.accuracy import Budget, Distance, Errors, Golden, budget, distance, measure, noise_ratio, worst
from kernel_matrix.job.budget import Rules, most_misrounded
from kernel_matrix.job.inputs import Array


@dataclass(frozen=True)
class Noise:
    """The noise that moves an output without a fault: ``floor`` of the baseline, ``conditioning`` of the golden."""

    floor: Distance
    conditioning: Distance

    @classmethod
    def measured(cls, golden: Golden, baseline: Sequence[Array], nudged: Sequence[Golden]) -> Noise:
        """Return the noise of the baseline's samples and of the goldens of nudged inputs."""
        floor, conditioning = ([distance(sample, golden) for sample in samples] for samples in (baseline, nudged))
        return cls(worst(floor), worst(conditioning) if nudged else Distance(golden.size, 0, 0, 0.0, 0.0, 0.0))


@dataclass(frozen=True)
class Comparison:
    """One output and its golden; :meth:`RunningCase.compare` explains ``unit`` and ``steps``."""

    result: Array
    golden: Golden
    errors: Errors
    noise: Noise
    budget: Budget
    unit: float
    steps: int
    most_misrounded: float = math.inf

    @property
    def faults(self) -> list[str]:
        """The figures outside the budget, in words."""
        share, most = self.errors.misrounded, self.most_misrounded
        text = f"{share:.2%} of the elements are misrounded, over {most:.2%}: it was rounded before"
        return [*self.budget.faults(self.errors), *([] if share <= most else [text])]

    def metrics(self, output: str) -> dict[str, float]:
        """Return all figures by name, from which a reader can compute the budget again."""
        figures = {
            "limit_max_abs": self.budget.max_abs,
            "limit_rel_fro": self.budget.rel_fro,
            "floor_max_abs": self.noise.floor.max_abs,
            "floor_rel_fro": self.noise.floor.rel_fro,
            "floor_misrounded": self.noise.floor.misrounded,
            "conditioning_max_abs": self.noise.conditioning.max_abs,
            "conditioning_rel_fro": self.noise.conditioning.rel_fro,
            "unit": self.unit,
            "steps": self.steps,
            "itemsize": self.result.dtype.itemsize,
            "largest": np.abs(self.golden).max(initial=0.0),
        }
        if (ratio := noise_ratio(self.errors, self.noise.floor)) is not None:
            figures["noise_ratio"] = ratio
        return self.errors.metrics(output) | {f"{output}.{name}": float(value) for name, value in figures.items()}


def compare_outputs(
    results: Mapping[str, Array],
    golden: Mapping[str, Golden],
    baseline: Sequence[Mapping[str, Array]],
    nudged: Sequence[Mapping[str, Golden]],
    units: Mapping[str, float],
    steps: Mapping[str, int],
    rules_of: Callable[[str], Rules],
) -> dict[str, Comparison]:
    """Compare every output with its golden; its arguments are explained at :meth:`RunningCase.compare`.

    ``rules_of`` returns the limits that matrix.yaml's ``accuracy`` has for an output.

    Raises:
        ValueError: an output is missing or has another shape.
    """
    if results.keys() != golden.keys():
        raise ValueError(f"the outputs are {sorted(results)}; the golden has {sorted(golden)}")
    golden = dict(golden)  # an array is known by its address below, so it stays
    noises: dict[int, Noise] = {}  # by golden: the variants of an output share it
    compared = {}
    for output, expected in golden.items():
        if id(expected) not in noises:
            copies = [copy[output] for copy in baseline], [copy[output] for copy in nudged]
            noises[id(expected)] = Noise.measured(expected, *copies)
        noise, result = noises[id(expected)], results[output]
        unit, in_turn = units[output], steps[output]
        floor, conditioning = noise.floor, noise.conditioning
        rules = rules_of(output)
        factors = {"factor": rules.factor, "rounded": rules.rounded, "ulps": rules.ulps, "cap": rules.cap * unit}
        limit = budget(floor, conditioning, expected, result.dtype, steps=in_turn, **factors)
        most = math.inf
        if rules.misrounded is not None and result.size and result.dtype.itemsize < np.dtype(np.float32).itemsize:
            most = most_misrounded(rules.misrounded, result.size, floor.misrounded)
        compared[output] = Comparison(result, expected, measure(result, expected), noise, limit, unit, in_turn, most)
    return compared
