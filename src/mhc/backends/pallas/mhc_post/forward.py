"""``mhc_post``: each stream of the output is a sum of all streams and of ``y``, weighted token by token."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mhc.backends.pallas.blocks import launch, rows, struct, tokens_of_block


def columns_of(streams: int, hidden: int) -> int:
    """Return the elements that a token has in all tensors of the kernel."""
    return (2 * streams + 1) * hidden + streams * (streams + 1)


def forward(x: jax.Array, y: jax.Array, h_post: jax.Array, h_res: jax.Array, *, interpreted: bool) -> jax.Array:
    """Return ``h_res @ x + h_post ⊗ y``; for the shapes see :mod:`mhc.ops.mhc_post`."""
    tokens, streams, hidden = x.shape
    block = tokens_of_block(tokens, columns_of(streams, hidden))

    def kernel(x_ref: Any, y_ref: Any, post_ref: Any, res_ref: Any, out_ref: Any) -> None:
        x, y = x_ref[...].astype(jnp.float32), y_ref[...].astype(jnp.float32)
        post, res = post_ref[...], res_ref[...]
        for i in range(streams):
            total = post[:, i : i + 1] * y
            for j in range(streams):
                at = i * streams + j
                total += res[:, at : at + 1] * x[:, j * hidden : (j + 1) * hidden]
            out_ref[:, i * hidden : (i + 1) * hidden] = total.astype(out_ref.dtype)

    out = launch(
        kernel,
        [x.reshape(tokens, streams * hidden), y, h_post, h_res.reshape(tokens, streams * streams)],
        out_shape=struct(tokens, streams * hidden, dtype=x.dtype),
        grid=(-(-tokens // block),),
        in_specs=[rows(block, n) for n in (streams * hidden, hidden, streams, streams * streams)],
        out_specs=[rows(block, streams * hidden)],
        semantics=["parallel"],
        interpreted=interpreted,
    )
    return out.reshape(x.shape)
