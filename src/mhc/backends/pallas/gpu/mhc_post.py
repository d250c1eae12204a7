"""``mhc_post`` and its gradients: a program has one token, or in the forward a block of its columns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from mhc.backends.pallas.gpu.blocks import launch, load, store, struct

_COLUMNS = 1024  # of a program of the forward
_STEP = 256  # of a step of the backward, whose sums are in registers


def forward(x: jax.Array, y: jax.Array, h_post: jax.Array, h_res: jax.Array, *, interpreted: bool = False) -> jax.Array:
    """Return ``h_res @ x + h_post ⊗ y``."""
    tokens, streams, hidden = x.shape

    def kernel(x_ref: Any, y_ref: Any, post_ref: Any, res_ref: Any, out_ref: Any) -> None:
        token, at = pl.program_id(0), pl.program_id(1) * _COLUMNS + jnp.arange(_COLUMNS)
        there = at < hidden
        written = load(y_ref, (token, at), there)
        rows = [load(x_ref, (token, j, at), there) for j in range(streams)]
        for i in range(streams):
            total = post_ref[token, i] * written
            for j in range(streams):
                total += res_ref[token, i, j] * rows[j]
            store(out_ref, (token, i, at), total, there)

    grid = (tokens, pl.cdiv(hidden, _COLUMNS))
    (out,) = launch(kernel, grid, [struct(*x.shape, dtype=x.dtype)], [x, y, h_post, h_res], interpreted=interpreted)
    return out


def backward(
    x: jax.Array,
    y: jax.Array,
    h_post: jax.Array,
    h_res: jax.Array,
    grad_out: jax.Array,
    *,
    interpreted: bool = False,
) -> tuple[jax.Array, ...]:
    """Return the gradients of x, y, h_post and h_res."""
    tokens, streams, hidden = x.shape

    def kernel(*refs: Any) -> None:
        x_ref, y_ref, post_ref, res_ref, grad_ref, to_x_ref, to_y_ref, to_post_ref, to_res_ref = refs
        token = pl.program_id(0)

        def step(number: Any, sums: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            at = number * _STEP + jnp.arange(_STEP)
            there = at < hidden
            grads = [load(grad_ref, (token, i, at), there) for i in range(streams)]
            sources = [load(x_ref, (token, j, at), there) for j in range(streams)]
            sources.append(load(y_ref, (token, at), there))
            to_y = post_ref[token, 0] * grads[0]
            for i in range(1, streams):
                to_y += post_ref[token, i] * grads[i]
            store(to_y_ref, (token, at), to_y, there)
            for j in range(streams):
                to_x = res_ref[token, 0, j] * grads[0]
                for i in range(1, streams):
                    to_x += res_ref[token, i, j] * grads[i]
                store(to_x_ref, (token, j, at), to_x, there)
            terms = [grad * source for grad in grads for source in sources]
            return tuple(total + term for total, term in zip(sums, terms, strict=True))

        zeros = (jnp.zeros(_STEP, jnp.float32),) * (streams * (streams + 1))
        sums = jax.lax.fori_loop(0, pl.cdiv(hidden, _STEP), step, zeros)
        for i in range(streams):
            for j in range(streams):
                to_res_ref[token, i, j] = jnp.sum(sums[i * (streams + 1) + j])
            to_post_ref[token, i] = jnp.sum(sums[i * (streams + 1) + streams])

    outputs = [struct(*tensor.shape, dtype=tensor.dtype) for tensor in (x, y, h_post, h_res)]
    return launch(kernel, (tokens,), outputs, [x, y, h_post, h_res, grad_out], interpreted=interpreted)
