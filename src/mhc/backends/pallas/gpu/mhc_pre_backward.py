"""The gradients of ``mhc_pre`` and ``mhc_head``: four kernels.

The first has 16 tokens in a program and gives the gradient of x, ``dz`` and ``f``: the gradients of the mixes' linear
function and of the projection. The second sums ``f ⊗ v`` over chunks of tokens, the third adds the chunks up, and the
fourth sums over tokens for alpha and bias.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from mhc.backends.pallas.gpu.blocks import column, launch, load, power_of_two, product, sigmoid, store, struct
from mhc.backends.pallas.gpu.mhc_pre import STEP, TOKENS, gates, rows_of_program
from mhc.backends.pallas.read import ReadBackward

_CHUNKS = 16  # of tokens, at most
_BLOCK = 32  # tokens of a step in a chunk
_LANES = 512  # tokens of a step of the fourth kernel


def backward(
    *arrays: Any, pre_eps: float, post_scale: float = 0.0, interpreted: bool = False
) -> tuple[jax.Array | None, ...]:
    """Return the gradients of x, phi, alpha, bias and gamma for the arrays of :class:`ReadBackward`.

    The gradient of gamma is None where gamma is not given.
    """
    given = ReadBackward.of(arrays)
    streams, (mixes, width) = given.x.shape[1], given.phi.shape
    to_x, dz, f = _of_tokens(given, pre_eps, post_scale, interpreted)
    to_phi, to_gamma = _of_columns(given.x.reshape(-1, width), f, given.phi, given.gamma, interpreted)
    to_bias, sums = _of_mixes(dz, given.m, interpreted)
    ends = [0, mixes] if mixes == streams else [0, streams, 2 * streams, mixes]
    to_alpha = jnp.stack([jnp.sum(sums[begin:end]) for begin, end in itertools.pairwise(ends)])
    return to_x, to_phi, to_alpha, to_bias, to_gamma


def _of_tokens(
    given: ReadBackward, pre_eps: float, post_scale: float, interpreted: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the gradient of x, dz and f."""
    x, phi, alpha, bias, gamma, m, r, (grad_read, *grads_of_written) = given
    tokens, streams, hidden = x.shape
    mixes, width = phi.shape
    written = [grad.reshape(tokens, -1) for grad in grads_of_written]

    def kernel(*refs: Any) -> None:
        x_ref, phi_ref, alpha_ref, bias_ref, m_ref, r_ref, read_ref, *others = refs
        written_refs = [others.pop(0) for _ in written]
        gamma_ref = others.pop(0) if gamma is not None else None
        to_x_ref, dz_ref, f_ref = others
        row, is_token = rows_of_program(tokens)
        at = jnp.arange(power_of_two(mixes, 16))
        is_mix = at < mixes
        of_mixes = is_token[:, None] & is_mix[None, :]

        def columns(number: Any) -> tuple[jax.Array, jax.Array]:
            k = number * STEP + jnp.arange(STEP)
            return k[None, :], is_token[:, None] & (k < hidden)[None, :]

        def to_weights(number: Any, sums: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            k, there = columns(number)
            grad = load(read_ref, (row[:, None], k), there)
            terms = [grad * load(x_ref, (row[:, None], i * hidden + k), there) for i in range(streams)]
            return tuple(total + term for total, term in zip(sums, terms, strict=True))

        zeros = (jnp.zeros((TOKENS, STEP), jnp.float32),) * streams
        sums = jax.lax.fori_loop(0, pl.cdiv(hidden, STEP), to_weights, zeros)
        mixed = load(m_ref, (row[:, None], at[None, :]), of_mixes)
        norm = load(r_ref, (row,), is_token)
        gate = gates(alpha_ref, at, streams, mixes)[None, :]
        s = sigmoid(gate * mixed + load(bias_ref, (at,), is_mix)[None, :])
        rise = s * (1.0 - s)
        dz = jnp.zeros_like(s)
        for i in range(streams):
            dz += jnp.where((at == i)[None, :], jnp.sum(sums[i], axis=1)[:, None] * rise, 0.0)
        if written_refs:
            post, res = (at >= streams) & (at < 2 * streams), (at >= 2 * streams) & is_mix
            indices = row[:, None], jnp.where(post, at - streams, 0)[None, :]
            dz += load(written_refs[0], indices, is_token[:, None] & post[None, :]) * post_scale * rise
            indices = row[:, None], jnp.where(res, at - 2 * streams, 0)[None, :]
            dz += load(written_refs[1], indices, is_token[:, None] & res[None, :])
        f = jnp.where(is_mix[None, :], gate * dz * norm[:, None], 0.0)
        store(dz_ref, (row[:, None], at[None, :]), dz, of_mixes)
        store(f_ref, (row[:, None], at[None, :]), f, of_mixes)
        slope = jnp.sum(jnp.where(is_mix[None, :], gate * dz * mixed, 0.0), axis=1) * norm * norm / width
        weights = [column(s + pre_eps, at, i) for i in range(streams)]

        def to_x(number: Any, _: Any) -> Any:
            k, there = columns(number)
            grad = load(read_ref, (row[:, None], k), there)
            inside = k < hidden
            for i in range(streams):
                own = i * hidden + k
                matrix = load(phi_ref, (at[:, None], own), is_mix[:, None] & inside)
                through = product(None, f, matrix, 1, 0)
                if gamma_ref is not None:
                    through = through * load(gamma_ref, (jnp.zeros_like(own), own), inside)
                v = load(x_ref, (row[:, None], own), there)
                total = through - slope[:, None] * v + weights[i][:, None] * grad
                store(to_x_ref, (row[:, None], own), total, there)
            return _

        jax.lax.fori_loop(0, pl.cdiv(hidden, STEP), to_x, 0)

    scales = [] if gamma is None else [gamma.reshape(1, width)]
    operands = [x.reshape(tokens, width), phi, alpha, bias, m, r, grad_read, *written, *scales]
    shapes = [struct(tokens, width, dtype=x.dtype), struct(tokens, mixes), struct(tokens, mixes)]
    to_x, dz, f = launch(kernel, (pl.cdiv(tokens, TOKENS),), shapes, operands, interpreted=interpreted)
    return to_x.reshape(x.shape), dz, f


def _of_columns(
    x: jax.Array, f: jax.Array, phi: jax.Array, gamma: jax.Array | None, interpreted: bool
) -> tuple[jax.Array, jax.Array | None]:
    """Return the gradients of phi and gamma: q · gamma and Σ phi · q, where q is the sum over tokens of f ⊗ v."""
    tokens, width = x.shape
    mixes = phi.shape[0]
    blocks = pl.cdiv(tokens, _BLOCK)
    steps = pl.cdiv(blocks, _CHUNKS)
    chunks = pl.cdiv(blocks, steps)
    narrow = "b" if x.dtype == jnp.bfloat16 else None
    height = power_of_two(mixes, 16)

    def summed(x_ref: Any, f_ref: Any, q_ref: Any) -> None:
        chunk, at = pl.program_id(1), jnp.arange(height)
        k = pl.program_id(0) * STEP + jnp.arange(STEP)
        is_mix, inside = at < mixes, k < width

        def step(number: Any, total: jax.Array) -> jax.Array:
            row = (chunk * steps + number) * _BLOCK + jnp.arange(_BLOCK)
            is_token = (row < tokens)[:, None]
            factors = load(f_ref, (row[:, None], at[None, :]), is_token & is_mix[None, :])
            v = load(x_ref, (row[:, None], k[None, :]), is_token & inside[None, :])
            return total + product(narrow, factors, v, 0, 0)

        total = jax.lax.fori_loop(0, steps, step, jnp.zeros((height, STEP), jnp.float32))
        indices = jnp.full((height, STEP), chunk), at[:, None], k[None, :]
        store(q_ref, indices, total, is_mix[:, None] & inside[None, :])

    grid = (pl.cdiv(width, STEP), chunks)
    (q,) = launch(summed, grid, [struct(chunks, mixes, width)], [x, f], interpreted=interpreted)

    def added(q_ref: Any, *refs: Any) -> None:
        k = pl.program_id(0) * STEP + jnp.arange(STEP)
        inside = k < width
        over_mixes = jnp.zeros(STEP, jnp.float32)
        for o in range(mixes):
            total = load(q_ref, (0, o, k), inside)
            for chunk in range(1, chunks):
                total += load(q_ref, (chunk, o, k), inside)
            if gamma is not None:
                over_mixes += total * load(refs[0], (o, k), inside)
                total = total * load(refs[1], (k,), inside)
            store(refs[-2] if gamma is not None else refs[-1], (o, k), total, inside)
        if gamma is not None:
            store(refs[-1], (k,), over_mixes, inside)

    grid = (pl.cdiv(width, STEP),)
    if gamma is None:
        (to_phi,) = launch(added, grid, [struct(mixes, width)], [q], interpreted=interpreted)
        return to_phi, None
    shapes, operands = [struct(mixes, width), struct(width)], [q, phi, gamma.reshape(width)]
    to_phi, to_gamma = launch(added, grid, shapes, operands, interpreted=interpreted)
    return to_phi, to_gamma.reshape(gamma.shape)


def _of_mixes(dz: jax.Array, m: jax.Array, interpreted: bool) -> tuple[jax.Array, jax.Array]:
    """Return the sums over tokens of dz and of dz · m, for each mix."""
    tokens, mixes = dz.shape

    def kernel(dz_ref: Any, m_ref: Any, to_bias_ref: Any, sums_ref: Any) -> None:
        mix = pl.program_id(0)

        def step(number: Any, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            row = number * _LANES + jnp.arange(_LANES)
            of_dz = load(dz_ref, (row, mix), row < tokens)
            return sums[0] + of_dz, sums[1] + of_dz * load(m_ref, (row, mix), row < tokens)

        zeros = (jnp.zeros(_LANES, jnp.float32),) * 2
        of_bias, of_alpha = jax.lax.fori_loop(0, pl.cdiv(tokens, _LANES), step, zeros)
        to_bias_ref[mix] = jnp.sum(of_bias)
        sums_ref[mix] = jnp.sum(of_alpha)

    return launch(kernel, (mixes,), [struct(mixes), struct(mixes)], [dz, m], interpreted=interpreted)
