"""The launches of ``expand`` and of its gradient."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mhc.backends.pallas.blocks import launch, rows, struct, tokens_of_block


def forward(x: jax.Array, streams: int, *, interpreted: bool) -> jax.Array:
    """Return ``x`` [tokens, hidden] copied to every stream, [tokens, streams, hidden]."""
    tokens, hidden = x.shape
    block = tokens_of_block(tokens, (streams + 1) * hidden)

    def kernel(x_ref: Any, out_ref: Any) -> None:
        for i in range(streams):
            out_ref[:, i * hidden : (i + 1) * hidden] = x_ref[...]

    out = launch(
        kernel,
        [x],
        out_shape=struct(tokens, streams * hidden, dtype=x.dtype),
        grid=(-(-tokens // block),),
        in_specs=[rows(block, hidden)],
        out_specs=[rows(block, streams * hidden)],
        semantics=["parallel"],
        interpreted=interpreted,
    )
    return out.reshape(tokens, streams, hidden)


def backward(grad_out: jax.Array, *, interpreted: bool) -> jax.Array:
    """Return the sum over the streams of ``grad_out`` [tokens, streams, hidden], in fp32 and rounded once."""
    tokens, streams, hidden = grad_out.shape
    block = tokens_of_block(tokens, (streams + 1) * hidden)

    def kernel(grad_ref: Any, out_ref: Any) -> None:
        total = grad_ref[:, :hidden].astype(jnp.float32)
        for i in range(1, streams):
            total += grad_ref[:, i * hidden : (i + 1) * hidden].astype(jnp.float32)
        out_ref[...] = total.astype(out_ref.dtype)

    return launch(
        kernel,
        [grad_out.reshape(tokens, streams * hidden)],
        out_shape=struct(tokens, hidden, dtype=grad_out.dtype),
        grid=(-(-tokens // block),),
        in_specs=[rows(block, streams * hidden)],
        out_specs=[rows(block, hidden)],
        semantics=["parallel"],
        interpreted=interpreted,
    )
