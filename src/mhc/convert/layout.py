"""Code that the layouts share: the rows of a projection, tensors by name, the checks of shapes and dtypes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping

import torch

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


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


def check_shape(caller: str, name: str, tensor: torch.Tensor, shape: tuple[int, ...], projection: torch.Tensor) -> None:
    """Raise ValueError unless the tensor has that shape, which follows from the shape of ``projection``."""
    if tuple(tensor.shape) != shape:
        raise ValueError(
            f"{caller}: {name} has shape {tuple(tensor.shape)}; with a projection of shape {tuple(projection.shape)} "
            f"it needs {shape}"
        )
