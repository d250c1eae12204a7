"""The mixes of a token as columns, for the kernels of ``mhc_pre`` and ``mhc_head``.

Of ``streams`` streams, ``mhc_pre`` has the mixes of h_pre, of h_post and of h_res, side by side; ``mhc_head`` has the
first of these alone. Each part has an element of alpha.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def columns_like(matrix: jax.Array) -> jax.Array:
    """Return the number of its column for each element."""
    return jax.lax.broadcasted_iota(jnp.int32, matrix.shape, 1)


def gates(alpha: Any, like: jax.Array, streams: int) -> jax.Array:
    """Return the element of ``alpha`` that scales each mix; ``like`` has a column for each."""
    at = columns_like(like)
    if like.shape[1] == streams:
        return jnp.full(like.shape, alpha[0], jnp.float32)
    return jnp.where(at < streams, alpha[0], jnp.where(at < 2 * streams, alpha[1], alpha[2]))


def stream(i: int, hidden: int) -> slice:
    """Return the columns of one stream."""
    return slice(i * hidden, (i + 1) * hidden)
