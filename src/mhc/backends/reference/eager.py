"""From an operator's equations to its forward, its gradients and its golden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Equations = Callable[..., tuple[torch.Tensor, ...]]


def widen(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same inputs in float64."""
    return type(inputs)(*(value.double() if isinstance(value, torch.Tensor) else value for value in inputs))


def gradients(
    equations: Equations, inputs: Sequence[Any], grads: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Gradients of the tensors among ``inputs`` by autograd, None for what is no tensor.

    ``grads`` are those of the equations' outputs, in their order and dtypes.
    """
    leaves = [value.detach().requires_grad_() if isinstance(value, torch.Tensor) else value for value in inputs]
    wanted = [value for value in leaves if isinstance(value, torch.Tensor)]
    found = iter(torch.autograd.grad(equations(*leaves), wanted, list(grads)))
    return tuple(next(found) if isinstance(value, torch.Tensor) else None for value in leaves)


def write(results: Sequence[torch.Tensor | None], out: tuple[torch.Tensor | None, ...]) -> None:
    """Copy the results into the tensors that were handed in."""
    for result, into in zip(results, out, strict=True):
        if into is not None:
            into.copy_(result)
