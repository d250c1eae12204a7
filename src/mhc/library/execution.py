"""One run of one kernel: its inputs made ready, its outputs allocated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mhc.backends import load
from mhc.library import calls
from mhc.library.operators import Operator
from mhc.ops.mhc_pre import MhcPreAddingInputs

ALIGNMENT = 16  # bytes: the widest load of one thread of a GPU


def forward(
    operator: Operator, values: tuple[Any, ...], backend: str, out: tuple[torch.Tensor, ...] | None = None
) -> tuple[torch.Tensor, ...]:
    """Return the outputs for ``values``, the tensors of the operator and its options.

    Tokens have one dimension in them, unless the kernel takes any (:func:`takes`). The outputs are written into ``out``
    where it is given.
    """
    kernel = load(backend, operator.name)
    call = None if out is not None else calls.Call.of(kernel, values, len(operator.tensors))
    if call is not None and (results := call.again()) is not None:
        return results  # type: ignore[return-value]  # no output is None
    inputs = operator.inputs(*_ready(values))
    if out is None:
        out = operator.empty_outputs(inputs)
    if inputs[0].numel():
        launches = kernel.run(inputs, out)
        if call is not None:
            call.keep(launches, inputs, out)
    return out


def backward(
    operator: Operator,
    values: tuple[Any, ...],
    backend: str,
    added: torch.Tensor | None = None,
    *,
    overwritten: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients, None where one is not asked for; ``values`` are the arguments of the backward's schema.

    ``added`` is added to the gradient of the first tensor, by a kernel that can (:func:`adds`); where ``overwritten``,
    in its own memory.
    """
    overwritten = overwritten and added is not None
    kernel = load(backend, operator.name, "backward")
    call = calls.Call.of(kernel, values, operator.backward_tensors, added, overwritten)
    if call is not None and (results := call.again()) is not None:
        return results
    inputs = operator.backward_inputs(*_ready(values))
    if added is not None:
        [packed] = _ready((added,))
        inputs = MhcPreAddingInputs.of(inputs, packed, overwritten=overwritten or packed is not added)
    out = operator.empty_grads(inputs)
    if inputs[0].numel():
        if any(grad is not None for grad in out):
            launches = kernel.run(inputs, out)
            if call is not None:
                call.keep(launches, inputs, out)
    else:  # a sum over no token
        for grad in out:
            if grad is not None:
                grad.zero_()
    return out


def takes(operator: Operator, backend: str, direction: str, dims: int) -> bool:
    """Return whether a kernel takes tensors whose tokens have ``dims`` dimensions."""
    return dims == 1 or getattr(load(backend, operator.name, direction), "any_leading_dims", False)


def adds(operator: Operator, backend: str, tensors: Sequence[Any]) -> bool:
    """Return whether the kernel of the backward adds a gradient of the first tensor that came from elsewhere."""
    return bool(tensors[0].numel()) and getattr(load(backend, operator.name, "backward"), "adds_to_first", False)


def _ready(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values with each tensor packed and aligned: a copy where it is not.

    A kernel reads aligned memory in wider loads, and may then sum in another order; the bits of a result must not
    depend on where a tensor lies.
    """
    for value in values:
        if isinstance(value, torch.Tensor) and not _is_packed(value):
            return tuple([_copied(value) if isinstance(value, torch.Tensor) else value for value in values])
    return values


def _is_packed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is aligned and has the strides of a new one.

    PyTorch calls a tensor contiguous whatever the stride of a dimension of one element is; TileLang 0.1.8 refuses it.
    """
    if not tensor.is_contiguous() or tensor.data_ptr() % ALIGNMENT:
        return False
    shape = tensor.shape
    if 1 not in shape and 0 not in shape:
        return True
    packed = 1
    for size, stride in zip(reversed(shape), reversed(tensor.stride()), strict=True):
        if stride != packed:
            return False
        packed *= max(size, 1)
    return True


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if _is_packed(tensor) else tensor.clone(memory_format=torch.contiguous_format)
