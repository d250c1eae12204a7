"""The way from a function of :mod:`mhc.functional` to a kernel."""

from __future__ import annotations

from typing import Any

import torch

from mhc.library import eager, sharding, transforms
from mhc.library.operators import Operator, flat

Tensors = tuple[torch.Tensor | None, ...]


def call(operator: Operator, tensors: Tensors, options: tuple[Any, ...], backend: str) -> tuple[torch.Tensor, ...]:
    """Return the results that have gradients, in the leading dimensions of ``tensors``, which were checked."""
    if torch.compiler.is_compiling():
        return _dispatched(operator, tensors, options, backend)
    if eager.takes(tensors):
        return eager.call(operator, tensors, options, backend)
    if torch.autograd.forward_ad._current_level >= 0 and any(map(_is_dual, tensors)):
        transforms.refuse_forward_mode(operator)
    if sharding.concerns(tensors):
        return sharding.call(operator, tensors, lambda local: call(operator, local, options, backend))
    return _dispatched(operator, tensors, options, backend)


def read(
    tensors: Tensors, options: tuple[Any, ...], sinkhorn_options: tuple[Any, ...], backend: str
) -> tuple[torch.Tensor, ...] | None:
    """Return x to hand on, and what ``mhc_pre`` gives with its ``h_res`` after ``sinkhorn``.

    It is None where the two have to be called apart.
    """
    if torch.compiler.is_compiling() or not eager.takes(tensors):
        return None
    return eager.read(tensors, options, sinkhorn_options, backend)


def _dispatched(
    operator: Operator, tensors: Tensors, options: tuple[Any, ...], backend: str
) -> tuple[torch.Tensor, ...]:
    """Go through ``torch.ops.mhc``, which tracing and transforms see; its tensors have one dimension of tokens."""
    [first, *_], [dims, *_] = tensors, operator.token_dims
    assert first is not None
    assert dims is not None
    lead = first.shape[: first.dim() - dims]
    packed = [
        tensor if tensor is None or dims is None else flat(tensor, dims)
        for tensor, dims in zip(tensors, operator.token_dims, strict=True)
    ]
    if not torch.compiler.is_compiling() and transforms.active():
        results = transforms.forward(operator, *packed, *options, backend)
    else:
        results = getattr(torch.ops.mhc, operator.name)(*packed, *options, backend)
        results = results if isinstance(results, tuple) else (results,)
    return tuple(result.reshape(*lead, *result.shape[1:]) for result in results[: operator.results])


def _is_dual(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None
