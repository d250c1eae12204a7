"""``torch.func.vmap``: a batch of calls as one call with more tokens, where nothing but tokens is batched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mhc.library.operators import Operator

Function = Callable[..., Any]  # of the operator and the arguments of its schema


def of_forward(
    operator: Operator, function: Function, size: int, in_dims: Sequence[Any], arguments: Sequence[Any]
) -> Any:
    """Return the outputs of the forward for a batch of ``size``, the batch first in each."""
    return _of_tokens(lambda *values: function(operator, *values), size, in_dims, arguments, operator.token_dims)


def of_backward(
    operator: Operator, function: Function, size: int, in_dims: Sequence[Any], arguments: Sequence[Any]
) -> Any:
    """Return the gradients for a batch of ``size``, the batch first in each.

    Gradients of parameters are sums of tokens: where one is asked for, each sample is a call of its own.
    """
    tensors, saved, _, rest = operator.backward_parts(arguments)
    count = len(operator.grads)
    token_dims = (
        *(operator.token_dims if tensors else ()),
        *(operator.kept(operator.result_dims) if saved else ()),
        *operator.result_dims[:count],
    )
    needs = rest[-2] if operator.needs else (True,) * len(operator.tensors)
    apart = any(needed and parameter for needed, parameter in zip(needs, operator.parameters, strict=True))
    return _of_tokens(lambda *values: function(operator, *values), size, in_dims, arguments, token_dims, apart=apart)


def _of_tokens(
    function: Callable[..., Any],
    size: int,
    in_dims: Sequence[Any],
    arguments: Sequence[Any],
    token_dims: Sequence[int | None],
    *,
    apart: bool = False,
) -> Any:
    """Return the outputs of ``function`` for a batch.

    The first arguments are tensors, one for each of ``token_dims`` (:class:`mhc.library.operators.Operator`). Where a
    parameter is batched, or the outputs are sums over the tokens (``apart``), each sample is a call of its own.
    """
    count = len(token_dims)
    tensors = [
        tensor if dim is None or tensor is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(arguments[:count], in_dims, strict=False)
    ]
    batched = [dim is not None for dim in in_dims[:count]]
    if apart or any(batch and dims is None for batch, dims in zip(batched, token_dims, strict=True)):
        return _one_by_one(function, size, tensors, batched, arguments[count:])
    flat = []
    for tensor, batch, dims in zip(tensors, batched, token_dims, strict=True):
        if tensor is None or dims is None:
            flat.append(tensor)
        else:
            whole = tensor if batch else tensor.unsqueeze(0).expand(size, *tensor.shape)
            flat.append(whole.flatten(0, 1))
    return _each(lambda output: output.unflatten(0, (size, -1)), function(*flat, *arguments[count:]))


def _one_by_one(
    function: Callable[..., Any], size: int, tensors: Sequence[Any], batched: Sequence[bool], rest: Sequence[Any]
) -> Any:
    """Return the outputs of a call for each sample, stacked."""
    samples = [
        function(*(tensor[index] if batch else tensor for tensor, batch in zip(tensors, batched, strict=True)), *rest)
        for index in range(size)
    ]
    if isinstance(samples[0], torch.Tensor):
        return torch.stack(samples)
    return type(samples[0])(torch.stack(outputs) for outputs in zip(*samples, strict=True))


def _each(function: Callable[[torch.Tensor], torch.Tensor], outputs: Any) -> Any:
    """Return the function of each tensor of a tuple or a list, or of the one tensor."""
    if isinstance(outputs, torch.Tensor):
        return function(outputs)
    return type(outputs)(function(output) for output in outputs)
