"""The gradients of ``mhc_pre`` and ``mhc_head``: one kernel goes over the tokens, another over the columns of phi.

The first gives the gradient of x, and ``f``, the gradient of the projection. Both add up over the blocks of tokens: the
first the gradients of alpha and bias, the second the gradients of phi and gamma. Gradients that are not asked for are
computed too, so that each has the same bits whatever is asked for.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mhc.backends.pallas.blocks import (
    add_up,
    is_token,
    kept,
    launch,
    product,
    rows,
    scalars,
    sigmoid,
    struct,
    tokens_of_block,
)
from mhc.backends.pallas.mhc_pre.mixes import columns_like, gates, stream
from mhc.backends.pallas.read import ReadBackward

_COLUMNS = 512  # of phi in a block of the second kernel


def columns_of(streams: int, hidden: int, mixes: int) -> int:
    """Return the elements that a token has in all tensors of the first kernel."""
    return (2 * streams + 1) * hidden + 4 * mixes + 1


def backward(*arrays: Any, pre_eps: float, post_scale: float = 0.0, interpreted: bool) -> tuple[jax.Array | None, ...]:
    """Return the gradients of x, phi, alpha, bias and gamma for the arrays of :class:`ReadBackward`.

    The gradient of gamma is None where gamma is not given.
    """
    given = ReadBackward.of(arrays)
    to_x, f, to_alpha, to_bias = _of_tokens(given, pre_eps, post_scale, interpreted)
    to_phi, to_gamma = _of_columns(given.x, f, given.phi, given.gamma, interpreted=interpreted)
    return to_x, to_phi, to_alpha, to_bias, to_gamma


def _of_tokens(
    given: ReadBackward, pre_eps: float, post_scale: float, interpreted: bool
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return the gradients of x, of the projection, of alpha and of bias."""
    x, phi, alpha, bias, gamma, m, r, (grad_read, *grads_of_written) = given
    written = [grad.reshape(grad.shape[0], -1) for grad in grads_of_written]
    tokens, streams, hidden = x.shape
    mixes, width = phi.shape
    block = tokens_of_block(tokens, columns_of(streams, hidden, mixes))
    steps = -(-tokens // block)

    def kernel(*refs: Any) -> None:
        x_ref, phi_ref, alpha_ref, bias_ref, m_ref, r_ref, read_ref, *others = refs
        written_refs = [others.pop(0) for _ in written]
        gamma_ref = others.pop(0) if gamma is not None else None
        to_x_ref, f_ref, sums_ref, to_bias_ref, stages_ref, stage_ref = others
        v, grad = x_ref[...].astype(jnp.float32), read_ref[...].astype(jnp.float32)
        m, r = m_ref[...], r_ref[...]
        gate = gates(alpha_ref, m, streams)
        s = sigmoid(gate * m + bias_ref[...])
        to_weights = [jnp.sum(grad * v[:, stream(i, hidden)], axis=1, keepdims=True) for i in range(streams)]
        above = jnp.concatenate([*to_weights, *(ref[...] for ref in written_refs)], axis=1)
        dz = above * _slopes(s, streams, post_scale)
        f = gate * dz * r
        f_ref[...] = f
        slope = jnp.sum(gate * dz * m, axis=1, keepdims=True) * r * r / width
        through = product(f, phi_ref[...], 1, 0)
        through = (through if gamma_ref is None else through * gamma_ref[...]) - slope * v
        for i in range(streams):
            read = (s[:, i : i + 1] + pre_eps) * grad
            to_x_ref[:, stream(i, hidden)] = (through[:, stream(i, hidden)] + read).astype(to_x_ref.dtype)
        step = pl.program_id(0)
        dz = jnp.where(is_token(step, block, tokens), dz, 0.0)
        dzm = jnp.where(is_token(step, block, tokens), dz * m, 0.0)
        add_up(step, steps, to_bias_ref, stage_ref, jnp.sum(dz, axis=0, keepdims=True))
        add_up(step, steps, sums_ref, stages_ref, jnp.sum(dzm, axis=0, keepdims=True))

    weights = [] if gamma is None else [gamma.reshape(1, width)]
    to_x, f, sums, to_bias = launch(
        kernel,
        [
            x.reshape(tokens, width),
            phi,
            alpha,
            bias.reshape(1, mixes),
            m,
            r.reshape(tokens, 1),
            grad_read,
            *written,
            *weights,
        ],
        out_shape=[struct(tokens, width, dtype=x.dtype), struct(tokens, mixes), struct(1, mixes), struct(1, mixes)],
        grid=(steps,),
        in_specs=[
            rows(block, width),
            kept(mixes, width),
            scalars(),
            kept(1, mixes),
            rows(block, mixes),
            rows(block, 1),
            rows(block, hidden),
            *(rows(block, grad.shape[1]) for grad in written),
            *(kept(1, width) for _ in weights),
        ],
        out_specs=[rows(block, width), rows(block, mixes), kept(1, mixes), kept(1, mixes)],
        scratch_shapes=[pltpu.VMEM((1, mixes), jnp.float32), pltpu.VMEM((1, mixes), jnp.float32)],
        semantics=["arbitrary"],
        interpreted=interpreted,
    )
    parts = [streams] if mixes == streams else [streams, streams, streams * streams]
    ends = [sum(parts[: i + 1]) for i in range(len(parts))]
    to_alpha = jnp.stack([jnp.sum(sums[0, end - part : end]) for part, end in zip(parts, ends, strict=True)])
    return to_x.reshape(x.shape), f, to_alpha, to_bias.reshape(mixes)


def _of_columns(
    x: jax.Array, f: jax.Array, phi: jax.Array, gamma: jax.Array | None, *, interpreted: bool
) -> tuple[jax.Array, jax.Array | None]:
    """Return the gradients of phi and gamma: q · gamma and Σ phi · q, where q is the sum over tokens of f ⊗ v."""
    tokens = x.shape[0]
    mixes, width = phi.shape
    columns = min(width, _COLUMNS)
    block = tokens_of_block(tokens, columns + mixes)
    steps = -(-tokens // block)

    def kernel(*refs: Any) -> None:
        x_ref, f_ref, *others = refs
        phi_ref, gamma_ref = (others.pop(0), others.pop(0)) if gamma is not None else (None, None)
        to_phi_ref, *others = others
        to_gamma_ref = others.pop(0) if gamma is not None else None
        (stage_ref,) = others
        step = pl.program_id(1)
        there = is_token(step, block, tokens)
        v = jnp.where(there, x_ref[...].astype(jnp.float32), 0.0)
        add_up(step, steps, to_phi_ref, stage_ref, product(jnp.where(there, f_ref[...], 0.0), v, 0, 0))
        if gamma_ref is not None:

            @pl.when(step == steps - 1)
            def _() -> None:
                q = to_phi_ref[...]
                to_gamma_ref[...] = jnp.sum(phi_ref[...] * q, axis=0, keepdims=True)
                to_phi_ref[...] = q * gamma_ref[...]

    def over_columns(height: int) -> pl.BlockSpec:
        return pl.BlockSpec((height, columns), lambda j, _: (0, j))

    has_gamma = gamma is not None
    results = launch(
        kernel,
        [x.reshape(tokens, width), f, *([phi, gamma.reshape(1, width)] if gamma is not None else [])],
        out_shape=[struct(mixes, width), *([struct(1, width)] if has_gamma else [])],
        grid=(-(-width // columns), steps),
        in_specs=[
            pl.BlockSpec((block, columns), lambda j, i: (i, j)),
            pl.BlockSpec((block, mixes), lambda _, i: (i, 0)),
            *([over_columns(mixes), over_columns(1)] if has_gamma else []),
        ],
        out_specs=[over_columns(mixes), *([over_columns(1)] if has_gamma else [])],
        scratch_shapes=[pltpu.VMEM((mixes, columns), jnp.float32)],
        semantics=["parallel", "arbitrary"],
        interpreted=interpreted,
    )
    return results[0], results[1].reshape(gamma.shape) if gamma is not None else None


def _slopes(s: jax.Array, streams: int, post_scale: float) -> jax.Array:
    """Return the derivative of each coefficient by its mix: ``s`` is the sigmoid, and h_res has none."""
    rises = s * (1.0 - s)
    if s.shape[1] == streams:
        return rises
    at = columns_like(s)
    return jnp.where(at < streams, rises, jnp.where(at < 2 * streams, post_scale * rises, 1.0))
