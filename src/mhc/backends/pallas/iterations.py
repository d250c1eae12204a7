"""The iterations of ``sinkhorn`` and their gradients, on arrays [rows, columns, tokens]."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

ALONG_COLUMNS, ALONG_ROWS = 0, 1  # the axis that the sum of a column, or of a row, goes along


class First(NamedTuple):
    """The first iteration: the matrix, the softmax over each column, and what the rows were divided by."""

    matrix: jax.Array
    columns: jax.Array
    divisor: jax.Array


class Step(NamedTuple):
    """One iteration: the divisors of the columns, the quotients, and the same of the rows after them."""

    columns: jax.Array
    by_columns: jax.Array
    rows: jax.Array
    by_rows: jax.Array


def first_iteration(logits: jax.Array, eps: float, form: str) -> First:
    """Return the first iteration; in the form ``paper`` a row whose quotients would all be 0 keeps its proportions."""
    below = logits - jnp.max(logits, axis=ALONG_COLUMNS, keepdims=True)
    powers = jnp.exp(below)
    sums = jnp.sum(powers, axis=ALONG_COLUMNS, keepdims=True)
    if form == "deepseek":
        matrix = powers / sums + eps
        divisor = jnp.sum(matrix, axis=ALONG_ROWS, keepdims=True) + eps
    else:
        matrix = jnp.exp(below - jnp.max(below, axis=ALONG_ROWS, keepdims=True)) / sums
        divisor = jnp.sum(matrix, axis=ALONG_ROWS, keepdims=True)
    return First(matrix / divisor, powers / sums, divisor)


def iteration(matrix: jax.Array, eps: float) -> Step:
    """Divide by the sums of the columns, then by the sums of the rows."""
    columns = jnp.sum(matrix, axis=ALONG_COLUMNS, keepdims=True) + eps
    by_columns = matrix / columns
    rows = jnp.sum(by_columns, axis=ALONG_ROWS, keepdims=True) + eps
    return Step(columns, by_columns, rows, by_columns / rows)


def grad_of_iteration(step: Step, grad: jax.Array) -> jax.Array:
    """Return the gradient of the matrix before a step. For M' = M / s it is (g - sum of g M') / s."""
    grad = (grad - jnp.sum(grad * step.by_rows, axis=ALONG_ROWS, keepdims=True)) / step.rows
    return (grad - jnp.sum(grad * step.by_columns, axis=ALONG_COLUMNS, keepdims=True)) / step.columns


def grad_of_first(first: First, grad: jax.Array, form: str) -> jax.Array:
    """Return the gradient of the logits from the gradient of the matrix after the first iteration."""
    grad = grad - jnp.sum(grad * first.matrix, axis=ALONG_ROWS, keepdims=True)
    if form == "deepseek":
        grad = grad / first.divisor
        return first.columns * (grad - jnp.sum(grad * first.columns, axis=ALONG_COLUMNS, keepdims=True))
    grad = first.matrix * grad
    return grad - first.columns * jnp.sum(grad, axis=ALONG_COLUMNS, keepdims=True)
