"""The kernels of the reference: equations that run eagerly, each with its golden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Equations = Callable[..., tuple[torch.Tensor | None, ...]]


class Kernel:
    """``equations`` takes the fields of the inputs, and returns the outputs."""

    def __init__(self, equations: Equations) -> None:
        self.equations = equations

    def run(self, inputs: tuple[Any, ...], out: tuple[torch.Tensor | None, ...], target: str | None = None) -> None:
        """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
        write(self.equations(*inputs), out)

    def golden(self, inputs: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
        """Return what every result is compared with: the same equations in float64 throughout."""
        return self.equations(*widen(inputs))


class GradientKernel(Kernel):
    """Gradients that are written out; their golden is autograd through the forward's equations instead."""

    def __init__(self, equations: Equations, forward: Equations, grads: type[Any]) -> None:
        super().__init__(equations)
        self._forward = forward
        self._grads = grads

    def golden(self, inputs: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients by autograd, in float64."""
        values = widen(inputs)._asdict()
        grads = [value for name, value in values.items() if name.startswith("grad_")]
        forward = {name: value for name, value in values.items() if not name.startswith("grad_")}
        by_name = dict(zip(forward, gradients(self._forward, list(forward.values()), grads), strict=True))
        return self._grads(*(by_name[name] for name in self._grads._fields))


def widen(inputs: Any) -> Any:
    """Return the same inputs in float64."""
    return type(inputs)(*(value.double() if isinstance(value, torch.Tensor) else value for value in inputs))


def gradients(
    equations: Equations, inputs: Sequence[Any], grads: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of the tensors among ``inputs`` by autograd, and None for each other input.

    ``grads`` are those of the equations' outputs, in their order and dtypes.
    """
    leaves = [value.detach().requires_grad_() if isinstance(value, torch.Tensor) else value for value in inputs]
    tensors = [value for value in leaves if isinstance(value, torch.Tensor)]
    results = iter(torch.autograd.grad(equations(*leaves), tensors, list(grads)))
    return tuple(next(results) if isinstance(value, torch.Tensor) else None for value in leaves)


def write(results: Sequence[torch.Tensor | None], out: tuple[torch.Tensor | None, ...]) -> None:
    """Copy the results into the tensors of ``out``."""
    for result, tensor in zip(results, out, strict=True):
        if tensor is not None:
            tensor.copy_(result)
