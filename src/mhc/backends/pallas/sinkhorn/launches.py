"""The launches of ``sinkhorn`` and of its gradient: a block has the matrices of up to 128 tokens, one in each lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mhc.backends.pallas.blocks import launch, struct
from mhc.backends.pallas.iterations import first_iteration, grad_of_first, grad_of_iteration, iteration

LANES = 128


def forward(logits: jax.Array, iterations: int, eps: float, form: str, *, interpreted: bool) -> jax.Array:
    """Return the doubly stochastic matrices of ``logits`` [tokens, streams, streams]."""

    def kernel(logits_ref: Any, matrix_ref: Any) -> None:
        first = first_iteration(logits_ref[...], eps, form).matrix
        matrix_ref[...] = jax.lax.fori_loop(1, iterations, lambda _, matrix: iteration(matrix, eps).by_rows, first)

    return _launch(kernel, [logits], [], interpreted=interpreted)


def backward(
    logits: jax.Array, grad_matrix: jax.Array, iterations: int, eps: float, form: str, *, interpreted: bool
) -> jax.Array:
    """Return the gradient of the logits. The matrices before each iteration are kept in VMEM."""
    streams = logits.shape[-1]

    def kernel(logits_ref: Any, grad_ref: Any, out_ref: Any, kept_ref: Any) -> None:
        first = first_iteration(logits_ref[...], eps, form)

        def go_forward(at: Any, matrix: jax.Array) -> jax.Array:
            kept_ref[at] = matrix
            return iteration(matrix, eps).by_rows

        def go_back(at: Any, grad: jax.Array) -> jax.Array:
            return grad_of_iteration(iteration(kept_ref[iterations - 2 - at], eps), grad)

        jax.lax.fori_loop(0, iterations - 1, go_forward, first.matrix)
        grad = jax.lax.fori_loop(0, iterations - 1, go_back, grad_ref[...])
        out_ref[...] = grad_of_first(first, grad, form)

    kept = (max(iterations - 1, 1), streams, streams, min(LANES, logits.shape[0]))
    return _launch(kernel, [logits, grad_matrix], [pltpu.VMEM(kept, jnp.float32)], interpreted=interpreted)


def _launch(
    kernel: Callable[..., None], matrices: list[jax.Array], scratch: list[Any], *, interpreted: bool
) -> jax.Array:
    """Run a kernel on matrices whose tokens are the last axis, and return its matrices as they were handed over."""
    tokens, streams, _ = matrices[0].shape
    lanes = min(LANES, tokens)
    block = pl.BlockSpec((streams, streams, lanes), lambda i: (0, 0, i))
    out = launch(
        kernel,
        [jnp.transpose(matrix, (1, 2, 0)) for matrix in matrices],
        out_shape=struct(streams, streams, tokens),
        grid=(-(-tokens // lanes),),
        in_specs=[block] * len(matrices),
        out_specs=[block],
        scratch_shapes=scratch,
        semantics=["parallel"],
        interpreted=interpreted,
    )
    return jnp.transpose(out, (2, 0, 1))
