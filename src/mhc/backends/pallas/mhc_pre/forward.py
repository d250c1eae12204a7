"""``mhc_pre`` and ``mhc_head``: a block of tokens at a time, together with the whole of phi."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mhc.backends.pallas.blocks import kept, launch, product, rows, scalars, sigmoid, struct, tokens_of_block
from mhc.backends.pallas.mhc_pre.mixes import gates, stream
from mhc.backends.pallas.read import Read


def columns_of(streams: int, hidden: int, mixes: int) -> int:
    """Return the elements that a token has in all tensors of the kernel."""
    return (streams + 1) * hidden + 2 * mixes + 1


def forward(
    *arrays: Any, norm_eps: float, pre_eps: float, post_scale: float = 0.0, interpreted: bool
) -> tuple[jax.Array, ...]:
    """Return the outputs of ``mhc_pre`` or ``mhc_head`` for the arrays of :class:`Read`."""
    x, phi, alpha, bias, gamma = Read(*arrays)
    tokens, streams, hidden = x.shape
    mixes, width = phi.shape
    is_head = mixes == streams
    block = tokens_of_block(tokens, columns_of(streams, hidden, mixes))

    def kernel(*refs: Any) -> None:
        x_ref, phi_ref, alpha_ref, bias_ref, *others = refs
        gamma_ref = others.pop(0) if gamma is not None else None
        read_ref, m_ref, r_ref, *written = others
        v = x_ref[...].astype(jnp.float32)
        r = jax.lax.rsqrt(jnp.sum(v * v, axis=1, keepdims=True) / width + norm_eps)
        m = product(v if gamma_ref is None else v * gamma_ref[...], phi_ref[...], 1, 1) * r
        z = gates(alpha_ref, m, streams) * m + bias_ref[...]
        weights = sigmoid(z) + pre_eps
        total = weights[:, 0:1] * v[:, stream(0, hidden)]
        for i in range(1, streams):
            total += weights[:, i : i + 1] * v[:, stream(i, hidden)]
        read_ref[...] = total.astype(read_ref.dtype)
        m_ref[...], r_ref[...] = m, r
        if written:
            written[0][...] = post_scale * sigmoid(z[:, streams : 2 * streams])
            written[1][...] = z[:, 2 * streams :]

    widths = [hidden, mixes, 1, *([] if is_head else [streams, streams * streams])]
    weights = [] if gamma is None else [gamma.reshape(1, width)]
    read, m, r, *written = launch(
        kernel,
        [x.reshape(tokens, width), phi, alpha, bias.reshape(1, mixes), *weights],
        out_shape=[struct(tokens, hidden, dtype=x.dtype), *(struct(tokens, columns) for columns in widths[1:])],
        grid=(-(-tokens // block),),
        in_specs=[
            rows(block, width),
            kept(mixes, width),
            scalars(),
            kept(1, mixes),
            *(kept(1, width) for _ in weights),
        ],
        out_specs=[rows(block, columns) for columns in widths],
        semantics=["parallel"],
        interpreted=interpreted,
    )
    if is_head:
        return read, m, r.reshape(tokens)
    h_post, h_res = written
    return read, h_post, h_res.reshape(tokens, streams, streams), m, r.reshape(tokens)
