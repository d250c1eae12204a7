"""``DTensor``: tokens may be spread over ranks, streams and hidden may not.

A rank computes its own tokens with its own copy of the parameters; no rank talks to another. The gradient of a
parameter is then a sum over this rank's tokens only: ``Partial``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from mhc.library.operators import Operator

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement

Tensors = tuple[torch.Tensor | None, ...]


def concerns(tensors: Tensors) -> bool:
    """Return whether one of the tensors is a ``DTensor``; a process that has not imported that module has none."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and any(isinstance(tensor, module.DTensor) for tensor in tensors)


def call(
    operator: Operator, tensors: Tensors, function: Callable[[Tensors], tuple[torch.Tensor, ...]]
) -> tuple[torch.Tensor, ...]:
    """Return the results of ``function``, which takes and gives the tensors of one rank, as tensors of all ranks.

    A tensor that goes with the tokens is spread as the first one is; a parameter is gathered where it is spread.

    Raises:
        ValueError: the first tensor is not spread over its tokens, or some tensor is not a ``DTensor``.
    """
    from torch.distributed.tensor import DTensor, Partial, Replicate

    names = [text.split()[-1] for text in operator.tensors]
    for name, tensor in zip(names, tensors, strict=True):
        if tensor is not None and not isinstance(tensor, DTensor):
            raise ValueError(f"{operator.name}: {name} is a plain tensor, and another is a DTensor; distribute it too")
    first: Any = tensors[0]
    lead = first.dim() - (operator.token_dims[0] or 0)
    mesh, placements = first.device_mesh, _checked(operator.name, names[0], first, lead)
    everywhere = [Replicate()] * len(placements)
    sums = [Replicate() if placement.is_replicate() else Partial() for placement in placements]

    def local(tensor: Any, dims: int | None) -> torch.Tensor | None:
        if tensor is None:
            return None
        placed, grads = (everywhere, sums) if dims is None else (list(placements), placements)
        if list(tensor.placements) != placed:  # where nothing moves, the gradient must not either: it stays a sum
            tensor = tensor.redistribute(mesh, placed)
        return tensor.to_local(grad_placements=grads)

    results = function(tuple(local(tensor, dims) for tensor, dims in zip(tensors, operator.token_dims, strict=True)))
    return tuple(_whole(result, first, lead, placements) for result in results)


def _checked(op: str, name: str, tensor: DTensor, lead: int) -> tuple[Placement, ...]:
    """Return the placements of the tensor, or raise if something other than its tokens is spread."""
    from torch.distributed.tensor import Replicate, Shard

    for placement in tensor.placements:
        if isinstance(placement, Replicate) or (type(placement) is Shard and placement.dim % tensor.dim() < lead):
            continue
        raise ValueError(
            f"{op}: {name} of shape {tuple(tensor.shape)} is placed {placement}; only its tokens (the first {lead} "
            "dimensions) may be spread over ranks: redistribute it"
        )
    return tuple(tensor.placements)


def _whole(result: torch.Tensor, first: DTensor, lead: int, placements: tuple[Placement, ...]) -> torch.Tensor:
    """Return this rank's part of a result as a part of the whole: the leading dimensions come from ``first``."""
    from torch.distributed.tensor import DTensor

    shape = torch.Size([*first.shape[:lead], *result.shape[lead:]])
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(result, first.device_mesh, placements, run_check=False, shape=shape, stride=stride)
