"""The checks of what an operator is given: the shapes and dtypes of its tensors, and the values of its options.

They are the same for tensors of PyTorch and arrays of JAX. A message says what it got and what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch

PARAMETERS = ("phi", "alpha", "bias", "gamma")  # of mhc_pre and mhc_head, in the order of their arguments


class Array(Protocol):
    """A tensor of PyTorch or an array of JAX."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...


def streams_of(op: str, x: Array, dtypes: Sequence[Any]) -> tuple[int, int]:
    """Return the streams and the hidden size of x, or raise if its shape or dtype does not fit."""
    if len(x.shape) < 2:
        raise ValueError(f"{op}: x has shape {tuple(x.shape)}; it needs [..., streams, hidden]")
    has_dtype(op, "x", x, dtypes)
    streams, hidden = x.shape[-2:]
    if streams < 1 or hidden < 1:
        raise ValueError(f"{op}: x has {streams} streams of {hidden}; it needs at least one of each")
    return streams, hidden


def shapes_of_parameters(
    streams: int, hidden: int, *, head: bool, mixes: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of ``PARAMETERS``, for ``mhc_head`` or for ``mhc_pre``, or for so many ``mixes``."""
    own, gates = (streams, 1) if head else (streams * (streams + 2), 3)
    mixes = own if mixes is None else mixes
    return (mixes, streams * hidden), (gates,), (mixes,), (streams, hidden)


def mixes_of(phi: Array | None, streams: int) -> int:
    """Return the rows of phi for ``mhc_coefficients``: those of h_pre and h_post at least."""
    return max(phi.shape[0] if phi is not None and len(phi.shape) else 0, 2 * streams)


def write_fits(op: str, x: Array, y: Array, h_post: Array, h_res: Array, dtypes: Sequence[Any], fp32: Any) -> None:
    """Raise if what ``mhc_post`` writes does not fit x; ``dtypes`` are those that x may have."""
    n, hidden = streams_of(op, x, dtypes)
    lead = x.shape[:-2]
    fits(op, x, "y", y, (*lead, hidden), (x.dtype,))
    fits(op, x, "h_post", h_post, (*lead, n), (fp32,))
    fits(op, x, "h_res", h_res, (*lead, n, n), (fp32,))


def read_fits(op: str, x: Array, pre: Array, dtypes: Sequence[Any], fp32: Any) -> None:
    """Raise if the weights ``pre`` do not fit x; ``dtypes`` are those that x may have."""
    n, _ = streams_of(op, x, dtypes)
    fits(op, x, "pre", pre, (*x.shape[:-2], n), (fp32,))


def logits_fit(logits: Array, iterations: int, form: str, forms: Iterable[str], fp32: Any) -> None:
    """Raise if ``sinkhorn`` does not take these logits or options."""
    shape = tuple(logits.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 1:
        raise ValueError(f"sinkhorn: logits has shape {shape}; it needs [..., n, n]")
    has_dtype("sinkhorn", "logits", logits, (fp32,))
    at_least_one("sinkhorn", "iterations", iterations)
    one_of("sinkhorn", "form", form, forms)


def stream_fits(x: Array, streams: int, dtypes: Sequence[Any]) -> None:
    """Raise if ``expand`` does not take this x or number of streams."""
    if len(x.shape) < 1 or x.shape[-1] < 1:
        raise ValueError(f"expand: x has shape {tuple(x.shape)}; it needs [..., hidden]")
    has_dtype("expand", "x", x, dtypes)
    at_least_one("expand", "streams", streams)


def fits(op: str, x: Array, name: str, tensor: Array | None, shape: tuple[int, ...], dtypes: Sequence[Any]) -> None:
    """Raise if a tensor has not the shape that x needs, is on another device, or has none of the dtypes."""
    if tensor is None:
        raise TypeError(f"{op}: {name} is None; it needs a tensor")
    if tensor.shape != shape:
        raise ValueError(
            f"{op}: {name} has shape {tuple(tensor.shape)}; x of shape {tuple(x.shape)} needs {tuple(shape)}"
        )
    if isinstance(tensor, torch.Tensor) and isinstance(x, torch.Tensor) and tensor.device != x.device:
        raise ValueError(f"{op}: {name} is on {tensor.device} and x on {x.device}; they need one device")
    has_dtype(op, name, tensor, dtypes)


def has_dtype(op: str, name: str, tensor: Array, dtypes: Sequence[Any]) -> None:
    """Raise if a tensor has none of the dtypes."""
    if tensor.dtype not in dtypes:
        several = "one of " if len(dtypes) > 1 else ""
        raise TypeError(f"{op}: {name} is {tensor.dtype}; it needs {several}{', '.join(map(str, dtypes))}")


def in_fp8(op: str, other: str, hidden: int, group: int, tensors: Iterable[Any]) -> None:
    """Raise if hidden is not of whole groups, or a gradient would be recorded: ``op`` has none, and ``other`` has."""
    if hidden % group:
        raise ValueError(f"{op}: hidden is {hidden}; it needs a multiple of {group}")
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        raise RuntimeError(
            f"{op}: a tensor requires a gradient, and it has none; use {other} for training, or call it under "
            "torch.no_grad()"
        )


def at_least_one(op: str, option: str, value: int) -> None:
    """Raise if an option is below 1."""
    if value < 1:
        raise ValueError(f"{op}: {option} is {value}; it needs at least 1")


def one_of(op: str, option: str, value: str, known: Iterable[str]) -> None:
    """Raise if an option is none of the known values."""
    if value not in known:
        raise ValueError(f"{op}: {option} is {value!r}; it needs one of {', '.join(known)}")
