"""``sinkhorn`` and its gradient: a program has the matrices of a few tokens, in the last dimension of its arrays.

The number of streams is a power of two, because an array of Triton's has no other sizes.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from mhc.backends.pallas.gpu.blocks import launch, load, store, struct
from mhc.backends.pallas.iterations import first_iteration, grad_of_first, grad_of_iteration, iteration

_TOKENS = 32  # of a program, which has one warp


def forward(logits: jax.Array, iterations: int, eps: float, form: str, *, interpreted: bool = False) -> jax.Array:
    """Return the doubly stochastic matrices of ``logits`` [tokens, streams, streams]."""

    def kernel(logits_ref: Any, matrix_ref: Any) -> None:
        place, there = _place(logits.shape)
        first = first_iteration(load(logits_ref, place, there), eps, form).matrix
        matrix = jax.lax.fori_loop(1, iterations, lambda _, matrix: iteration(matrix, eps).by_rows, first)
        store(matrix_ref, place, matrix, there)

    return _launch(kernel, [logits], interpreted)


def backward(
    logits: jax.Array, grad_matrix: jax.Array, iterations: int, eps: float, form: str, *, interpreted: bool = False
) -> jax.Array:
    """Return the gradient of the logits. The matrices before each iteration are kept as values."""

    def kernel(logits_ref: Any, grad_ref: Any, out_ref: Any) -> None:
        place, there = _place(logits.shape)
        first = first_iteration(load(logits_ref, place, there), eps, form)
        kept = [first.matrix]
        for _ in range(iterations - 1):
            kept.append(iteration(kept[-1], eps).by_rows)
        grad = load(grad_ref, place, there)
        for matrix in reversed(kept[:-1]):
            grad = grad_of_iteration(iteration(matrix, eps), grad)
        store(out_ref, place, grad_of_first(first, grad, form), there)

    return _launch(kernel, [logits, grad_matrix], interpreted)


def _place(shape: tuple[int, ...]) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Return the indices [row, column, token] of the program's matrices, and which of them are tokens."""
    tokens, streams, _ = shape
    token = (pl.program_id(0) * _TOKENS + jnp.arange(_TOKENS))[None, None, :]
    row, column = jnp.arange(streams)[:, None, None], jnp.arange(streams)[None, :, None]
    return (token, row, column), jnp.broadcast_to(token < tokens, (streams, streams, _TOKENS))


def _launch(kernel: Any, operands: list[jax.Array], interpreted: bool) -> jax.Array:
    shape = operands[0].shape
    grid = (pl.cdiv(shape[0], _TOKENS),)
    (out,) = launch(kernel, grid, [struct(*shape)], operands, warps=1, interpreted=interpreted)
    return out
