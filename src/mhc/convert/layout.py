"""Code that the layouts share: the rows of a projection, tensors by name, the checks of shapes and dtypes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping

import torch

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
GATES = ("alpha_pre", "alpha_post", "alpha_res")  # where each gate is a tensor of its own


def streams_of(mixes: int) -> int | None:
    """Return n for the n² + 2n mixes of a connection, or None where no n has that many."""
    n = math.isqrt(mixes)
    return n if n >= 1 and n * (n + 2) == mixes else None


def transpose_res(tensor: torch.Tensor, streams: int) -> torch.Tensor:
    """Return a copy of ``tensor``, whose rows are in the order pre, post, res, with the matrix of res transposed."""
    others, res = tensor.split([2 * streams, streams * streams])
    return torch.cat([others, res.unflatten(0, (streams, streams)).transpose(0, 1).flatten(0, 1)])


def tensor_of(caller: str, tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """Return the tensor of that name.

    Raises:
        LookupError: there is none; the message says which names are near it.
        TypeError: its dtype is no plain floating-point dtype: a quantized weight's is none.
    """
    if name not in tensors:
        near = difflib.get_close_matches(name, tensors, n=3)
        hint = f"; near it are {', '.join(near)}" if near else ""
        raise LookupError(f"{caller}: there is no tensor {name!r} among {len(tensors)}{hint}")
    tensor = tensors[name]
    if tensor.dtype not in DTYPES:
        raise TypeError(f"{caller}: {name} is {tensor.dtype}; it needs one of {', '.join(map(str, DTYPES))}")
    return tensor


def gates_of(caller: str, tensors: Mapping[str, torch.Tensor], prefix: str) -> torch.Tensor:
    """Return the three gates as one tensor.

    Raises:
        LookupError: one is missing.
        TypeError: their dtypes differ, or are no plain floating-point dtypes.
        ValueError: one has not one element.
    """
    gates = [tensor_of(caller, tensors, prefix + name) for name in GATES]
    for name, gate in zip(GATES, gates, strict=True):
        if gate.numel() != 1:
            raise ValueError(f"{caller}: {prefix}{name} has shape {tuple(gate.shape)}; it needs one element")
        if gate.dtype != gates[0].dtype:
            raise TypeError(f"{caller}: {prefix}{name} is {gate.dtype} and {GATES[0]} {gates[0].dtype}; alpha has one")
    return torch.cat([gate.reshape(1) for gate in gates])


def check_shape(caller: str, name: str, tensor: torch.Tensor, shape: tuple[int, ...], projection: torch.Tensor) -> None:
    """Raise ValueError unless the tensor has that shape, which follows from the shape of ``projection``."""
    if tuple(tensor.shape) != shape:
        raise ValueError(
            f"{caller}: {name} has shape {tuple(tensor.shape)}; with a projection of shape {tuple(projection.shape)} "
            f"it needs {shape}"
        )
