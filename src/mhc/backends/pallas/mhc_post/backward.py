"""The gradients of ``mhc_post``: all of them, whichever are asked for, so that each has the same bits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mhc.backends.pallas.blocks import launch, rows, struct, tokens_of_block


def columns_of(streams: int, hidden: int) -> int:
    """Return the elements that a token has in all tensors of the kernel."""
    return (3 * streams + 2) * hidden + 2 * streams * (streams + 1)


def backward(
    x: jax.Array, y: jax.Array, h_post: jax.Array, h_res: jax.Array, grad_out: jax.Array, *, interpreted: bool
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return the gradients of x, y, h_post and h_res; for the shapes see :mod:`mhc.ops.mhc_post`."""
    tokens, streams, hidden = x.shape
    block = tokens_of_block(tokens, columns_of(streams, hidden))
    widths = (streams * hidden, hidden, streams, streams * streams)

    def kernel(*refs: Any) -> None:
        x_ref, y_ref, post_ref, res_ref, grad_ref, *out = refs
        x, y, grad = (ref[...].astype(jnp.float32) for ref in (x_ref, y_ref, grad_ref))
        post, res = post_ref[...], res_ref[...]
        stream = [slice(i * hidden, (i + 1) * hidden) for i in range(streams)]
        to_y = jnp.zeros_like(y)
        for i in range(streams):
            to_x = jnp.zeros_like(y)
            for j in range(streams):
                at = j * streams + i
                to_x += res[:, at : at + 1] * grad[:, stream[j]]
            out[0][:, stream[i]] = to_x.astype(x_ref.dtype)
            to_y += post[:, i : i + 1] * grad[:, stream[i]]
            out[2][:, i : i + 1] = jnp.sum(grad[:, stream[i]] * y, axis=1, keepdims=True)
            for j in range(streams):
                at = i * streams + j
                out[3][:, at : at + 1] = jnp.sum(grad[:, stream[i]] * x[:, stream[j]], axis=1, keepdims=True)
        out[1][...] = to_y.astype(y_ref.dtype)

    grads = launch(
        kernel,
        [
            x.reshape(tokens, -1),
            y,
            h_post,
            h_res.reshape(tokens, -1),
            grad_out.reshape(tokens, -1),
        ],
        out_shape=tuple(
            struct(tokens, width, dtype=dtype)
            for width, dtype in zip(widths, (x.dtype, y.dtype, jnp.float32, jnp.float32), strict=True)
        ),
        grid=(-(-tokens // block),),
        in_specs=[rows(block, width) for width in (*widths, widths[0])],
        out_specs=[rows(block, width) for width in widths],
        semantics=["parallel"],
        interpreted=interpreted,
    )
    return tuple(grad.reshape(like.shape) for grad, like in zip(grads, (x, y, h_post, h_res), strict=True))  # type: ignore[return-value]
