"""The gradient of a gradient: PyTorch differentiates the reference's forward equations twice.

No backend has a kernel for it. It is computed in fp32 whatever the backend and its ``precision``, and it may be
differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mhc.backends import load
from mhc.backends.reference.kernel import full_precision
from mhc.library.operators import Operator

Tensors = tuple[torch.Tensor | None, ...]


def gradients(
    operator: Operator,
    tensors: Tensors,
    grads: tuple[torch.Tensor, ...],
    rest: tuple[Any, ...],
    cotangents: Sequence[torch.Tensor],
) -> Tensors:
    """Return the gradients of ``tensors`` and then of ``grads``, in their dtypes.

    ``rest`` is what follows the tensors in the schema of the backward; ``cotangents`` are the gradients of those
    results of the backward that were asked for. An operator that keeps no inputs is linear: its ``tensors`` are empty.
    """
    device = grads[0].device
    with full_precision(device):
        if not tensors:
            return _of_linear(operator, grads, cotangents)
        count = len(operator.options)
        options = ["fp32" if option == "tf32" else option for option in rest[:count]]
        needs = rest[count] if operator.needs else (True,) * len(tensors)
        equations = load("reference", operator.name).equations  # type: ignore[attr-defined]
        given = [place for place, tensor in enumerate(tensors) if tensor is not None]
        asked = [place for place in given if needs[place]]

        def outputs(*present: torch.Tensor) -> tuple[torch.Tensor, ...]:
            arguments: list[Any] = [None] * len(tensors)
            for place, tensor in zip(given, present, strict=True):
                arguments[place] = tensor
            return tuple(equations(*arguments, *options)[: len(grads)])

        def backward(*primals: torch.Tensor) -> tuple[torch.Tensor, ...]:
            present, incoming = primals[: len(given)], primals[len(given) :]
            _, pull = torch.func.vjp(outputs, *present)
            by_place = dict(zip(given, pull(tuple(incoming)), strict=True))
            return tuple(by_place[place] for place in asked)

        primals = [tensors[place] for place in given] + list(grads)
        _, pull = torch.func.vjp(backward, *(primal.float() for primal in primals))
        results = pull(tuple(cotangent.float() for cotangent in cotangents))
        narrow = [result.to(primal.dtype) for result, primal in zip(results, primals, strict=True)]
        by_place = dict(zip(given, narrow, strict=False))
        return (*(by_place.get(place) for place in range(len(tensors))), *narrow[len(given) :])


def _of_linear(operator: Operator, grads: tuple[torch.Tensor, ...], cotangents: Sequence[torch.Tensor]) -> Tensors:
    """Return the gradient of ``expand``'s gradient: the sum over streams is linear, and its adjoint is ``expand``."""
    [grad], [cotangent] = grads, cotangents
    return tuple(load("reference", operator.name).equations(cotangent, grad.shape[1]))  # type: ignore[attr-defined]
