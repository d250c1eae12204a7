"""``expand`` and its gradient: a program has a block of the columns of one token."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from mhc.backends.pallas.gpu.blocks import launch, load, store, struct

_COLUMNS = 1024


def forward(x: jax.Array, streams: int, *, interpreted: bool = False) -> jax.Array:
    """Return ``x`` copied to every stream."""
    tokens, hidden = x.shape

    def kernel(x_ref: Any, out_ref: Any) -> None:
        token, at, there = _place(hidden)
        row = load(x_ref, (token, at), there)
        for i in range(streams):
            store(out_ref, (token, i, at), row, there)

    (out,) = _launch(kernel, [struct(tokens, streams, hidden, dtype=x.dtype)], [x], interpreted)
    return out


def backward(grad_out: jax.Array, *, interpreted: bool = False) -> jax.Array:
    """Return the sum over the streams."""
    tokens, streams, hidden = grad_out.shape

    def kernel(grad_ref: Any, out_ref: Any) -> None:
        token, at, there = _place(hidden)
        total = load(grad_ref, (token, 0, at), there)
        for i in range(1, streams):
            total += load(grad_ref, (token, i, at), there)
        store(out_ref, (token, at), total, there)

    (out,) = _launch(kernel, [struct(tokens, hidden, dtype=grad_out.dtype)], [grad_out], interpreted)
    return out


def _place(hidden: int) -> tuple[Any, jax.Array, jax.Array]:
    """Return the program's token, its columns, and which of them the tensors have."""
    at = pl.program_id(1) * _COLUMNS + jnp.arange(_COLUMNS)
    return pl.program_id(0), at, at < hidden


def _launch(kernel: Any, outputs: list[Any], operands: list[jax.Array], interpreted: bool) -> Any:
    tokens, hidden = operands[0].shape[0], operands[0].shape[-1]
    return launch(kernel, (tokens, pl.cdiv(hidden, _COLUMNS)), outputs, operands, interpreted=interpreted)
