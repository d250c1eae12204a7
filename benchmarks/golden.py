"""The distance of outputs from their golden, on the device that holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from draws import PARAMETERS
from kernel_matrix.job.budget import Pair
from kernel_matrix.tools.bench.inside.protocol import Distance, Yardstick

Outputs = Mapping[str, torch.Tensor]


def present(outputs: Any) -> dict[str, torch.Tensor]:
    """Return the outputs that there are, by name."""
    return {name: tensor for name, tensor in outputs._asdict().items() if tensor is not None}


def poison(outputs: Any) -> None:
    """Fill outputs with NaN: an element that a kernel does not write is then seen."""
    for tensor in outputs:
        if tensor is not None:
            tensor.fill_(float("nan"))


def distances(results: Outputs, golden: Outputs) -> dict[str, Distance]:
    """Return how far each result is from its golden."""
    answer = {}
    for name, result in results.items():
        exact = golden[name]
        if result.shape != exact.shape:
            raise ValueError(f"{name} has shape {tuple(result.shape)}, and the golden {tuple(exact.shape)}")
        difference = result.double() - exact
        finite = bool(torch.isfinite(difference).all())
        answer[name] = Distance(_pair(difference, exact), finite)
    return answer


def _pair(difference: torch.Tensor, exact: torch.Tensor) -> Pair:
    norm = float(torch.linalg.vector_norm(exact))
    far = float(torch.linalg.vector_norm(difference))
    largest = float(difference.abs().max()) if difference.numel() else 0.0
    return Pair(largest, far / norm if norm else (float("inf") if far else 0.0))


def yardsticks(
    golden: Outputs,
    eager: Outputs,
    moved: Sequence[Callable[[], Outputs]],
    direction: str,
    steps: Callable[[str], int],
) -> dict[str, Yardstick]:
    """Return what the budget of each output follows from, as the conformance suite makes it.

    ``moved`` give the goldens of inputs that are off by one rounding error.
    """
    floors = distances(eager, golden)
    conditioning: dict[str, Pair] = {}
    for make in moved:
        for name, distance in distances(make(), golden).items():
            before = conditioning.get(name, Pair(0.0, 0.0))
            error = distance.error
            conditioning[name] = Pair(max(before.max_abs, error.max_abs), max(before.rel_fro, error.rel_fro))
    answer = {}
    for name, exact in golden.items():
        largest = float(exact.abs().max()) if exact.numel() else 0.0
        unit = max(1.0, largest) if direction != "forward" else 1.0
        answer[name] = Yardstick(
            floors[name].error, conditioning[name], largest, eager[name].element_size(), unit, steps(name)
        )
    return answer


def steps_of(direction: str, tokens: int, iterations: int) -> Callable[[str], int]:
    """Return how many rounded operations in turn are behind an output: sums over tokens, and Sinkhorn's iterations."""
    alone = iterations * 2 * (3 if direction == "forward" else 3 + 4) if iterations else 1
    return lambda name: tokens if name in PARAMETERS else alone
