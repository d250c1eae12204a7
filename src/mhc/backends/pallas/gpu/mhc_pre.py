"""``mhc_pre`` and ``mhc_head``: a program has 16 tokens, and goes over the columns of phi."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from mhc.backends.pallas.gpu.blocks import column, launch, load, power_of_two, product, sigmoid, store, struct
from mhc.backends.pallas.read import Read

TOKENS = 16  # the least that tensor cores have
STEP = 128  # columns
_STAGE = 4  # steps whose sums are added up before they join the others, so that no chain is long


def forward(
    *arrays: Any, norm_eps: float, pre_eps: float, post_scale: float = 0.0, interpreted: bool = False
) -> tuple[jax.Array, ...]:
    """Return the outputs of ``mhc_pre`` or ``mhc_head`` for the arrays of :class:`Read`."""
    x, phi, alpha, bias, gamma = Read(*arrays)
    tokens, streams, hidden = x.shape
    mixes, width = phi.shape
    is_head = mixes == streams
    narrow = "a" if x.dtype == jnp.bfloat16 else None

    def kernel(*refs: Any) -> None:
        x_ref, phi_ref, alpha_ref, bias_ref, *others = refs
        gamma_ref = others.pop(0) if gamma is not None else None
        read_ref, m_ref, r_ref, *written = others
        row, is_token = rows_of_program(tokens)
        at = jnp.arange(power_of_two(mixes, 16))
        is_mix = at < mixes

        def project(number: Any, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            k = number * STEP + jnp.arange(STEP)
            inside = k < width
            v = load(x_ref, (row[:, None], k[None, :]), is_token[:, None] & inside[None, :])
            weights = load(phi_ref, (at[:, None], k[None, :]), is_mix[:, None] & inside[None, :])
            if gamma_ref is not None:
                weights = weights * load(gamma_ref, (k,), inside)[None, :]
            return carry[0] + product(narrow, v, weights, 1, 1), carry[1] + v * v

        def stage(number: Any, totals: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            sums = zeros
            for step in range(_STAGE):
                sums = project(number * _STAGE + step, sums)
            return totals[0] + sums[0], totals[1] + sums[1]

        zeros = jnp.zeros((TOKENS, at.size), jnp.float32), jnp.zeros((TOKENS, STEP), jnp.float32)
        projected, squares = jax.lax.fori_loop(0, pl.cdiv(width, STEP * _STAGE), stage, zeros)
        r = jax.lax.rsqrt(jnp.sum(squares, axis=1) / width + norm_eps)
        m = projected * r[:, None]
        z = gates(alpha_ref, at, streams, mixes)[None, :] * m + load(bias_ref, (at,), is_mix)[None, :]
        s = sigmoid(z)
        store(m_ref, (row[:, None], at[None, :]), m, is_token[:, None] & is_mix[None, :])
        store(r_ref, (row,), r, is_token)
        if written:
            post, res = (at >= streams) & (at < 2 * streams), (at >= 2 * streams) & is_mix
            indices = row[:, None], jnp.where(post, at - streams, streams + at)[None, :]
            store(written[0], indices, post_scale * s, is_token[:, None] & post[None, :])
            indices = row[:, None], jnp.where(res, at - 2 * streams, streams * streams + at)[None, :]
            store(written[1], indices, z, is_token[:, None] & res[None, :])
        weights = [column(s + pre_eps, at, i) for i in range(streams)]

        def read(number: Any, _: Any) -> Any:
            k = number * STEP + jnp.arange(STEP)
            there = is_token[:, None] & (k < hidden)[None, :]
            total = jnp.zeros((TOKENS, STEP), jnp.float32)
            for i in range(streams):
                total += weights[i][:, None] * load(x_ref, (row[:, None], i * hidden + k[None, :]), there)
            store(read_ref, (row[:, None], k[None, :]), total, there)
            return _

        jax.lax.fori_loop(0, pl.cdiv(hidden, STEP), read, 0)

    shapes = [struct(tokens, hidden, dtype=x.dtype), struct(tokens, mixes), struct(tokens)]
    if not is_head:
        shapes += [struct(tokens, streams), struct(tokens, streams * streams)]
    weights = [] if gamma is None else [gamma.reshape(width)]
    operands = [x.reshape(tokens, width), phi, alpha, bias, *weights]
    read, m, r, *written = launch(kernel, (pl.cdiv(tokens, TOKENS),), shapes, operands, interpreted=interpreted)
    if is_head:
        return read, m, r
    return read, written[0], written[1].reshape(tokens, streams, streams), m, r


def rows_of_program(tokens: int) -> tuple[jax.Array, jax.Array]:
    """Return the rows of the program's tokens, and which of them are tokens."""
    row = pl.program_id(0) * TOKENS + jnp.arange(TOKENS)
    return row, row < tokens


def gates(alpha: Any, at: jax.Array, streams: int, mixes: int) -> jax.Array:
    """Return the element of ``alpha`` that scales each mix; ``at`` numbers them."""
    if mixes == streams:
        return jnp.full(at.shape, alpha[0], jnp.float32)
    return jnp.where(at < streams, alpha[0], jnp.where(at < 2 * streams, alpha[1], alpha[2]))
