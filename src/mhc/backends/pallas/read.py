"""The arrays of ``mhc_pre`` and ``mhc_head``: the form for TPUs and the form for NVIDIA's GPUs take the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax


class Read(NamedTuple):
    """The arrays of the forward; ``phi`` of ``mhc_head`` has a row for each stream alone."""

    x: jax.Array
    phi: jax.Array
    alpha: jax.Array
    bias: jax.Array
    gamma: jax.Array | None


class ReadBackward(NamedTuple):
    """The arrays of the backward: the forward's inputs, its outputs ``m`` and ``r``, and gradients of the others.

    ``grads`` are the gradients of h_in, h_post and h_res for ``mhc_pre``, and of the output for ``mhc_head``.
    """

    x: jax.Array
    phi: jax.Array
    alpha: jax.Array
    bias: jax.Array
    gamma: jax.Array | None
    m: jax.Array
    r: jax.Array
    grads: tuple[jax.Array, ...]

    @classmethod
    def of(cls, arrays: tuple[Any, ...]) -> ReadBackward:
        """Return the arrays by name; all of them stand in one row."""
        return cls(*arrays[:7], arrays[7:])
