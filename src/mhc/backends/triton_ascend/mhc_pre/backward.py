"""The device code of the gradients of ``mhc_pre`` and ``mhc_head``: of each token, of columns, and of small tensors."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton_ascend.mhc_pre.forward import factors


@triton.jit
def read_backward_kernel(
    x,
    phi,
    alpha,
    bias,
    gamma,
    m,
    r,
    grad_h_in,
    grad_h_post,
    grad_h_res,
    grad_x,
    grad_logits,
    grad_sums,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    GAMMA: tl.constexpr,
    WRITES_BACK: tl.constexpr,
    PRE_EPS: tl.constexpr,
    POST_SCALE: tl.constexpr,
):
    """One program computes the gradient of one token, and what the sums over tokens are made from.

    ``grad_logits`` are gradients of what is added to ``bias``, ``grad_sums`` gradients of the products with ``phi``.
    """
    token = tl.program_id(0).to(tl.int64)
    k, lanes = tl.arange(0, PADDED), tl.arange(0, BLOCK_HIDDEN)
    real = k < MIXES
    streams, read = x + token * (STREAMS * HIDDEN), grad_h_in + token * HIDDEN
    mixes = tl.load(m + token * MIXES + k, mask=real, other=0.0)
    scale = tl.load(r + token)
    factor = factors(alpha, k, STREAMS, WRITES_BACK)
    gates = 1.0 / (1.0 + tl.exp(-(factor * mixes + tl.load(bias + k, mask=real, other=0.0))))
    grads = tl.zeros([PADDED], tl.float32)
    for i in range(STREAMS):
        products = tl.zeros([BLOCK_HIDDEN], tl.float32)
        for first in range(0, HIDDEN, BLOCK_HIDDEN):
            there = first + lanes < HIDDEN
            v = tl.load(streams + i * HIDDEN + first + lanes, mask=there, other=0.0).to(tl.float32)
            products += v * tl.load(read + first + lanes, mask=there, other=0.0).to(tl.float32)
        grads = tl.where(k == i, tl.sum(products, axis=0), grads)
    if WRITES_BACK:
        post = (k >= STREAMS) & (k < 2 * STREAMS)
        written = tl.load(grad_h_post + token * STREAMS + k - STREAMS, mask=post, other=0.0)
        grads = tl.where(post, POST_SCALE * written, grads)
    grads = grads * gates * (1.0 - gates)
    if WRITES_BACK:
        after = k - 2 * STREAMS
        mixed = (after >= 0) & real
        residual = tl.load(grad_h_res + token * (STREAMS * STREAMS) + after, mask=mixed, other=0.0)
        grads = tl.where(mixed, residual, grads)
    tl.store(grad_logits + token * MIXES + k, grads, mask=real)
    to_sums = tl.where(real, factor * grads * scale, 0.0)
    tl.store(grad_sums + token * MIXES + k, to_sums, mask=real)
    # r = (mean(v²) + eps)^(-1/2), and m has it as a factor.
    of_norm = -tl.sum(to_sums * mixes, axis=0) * scale / (STREAMS * HIDDEN)
    for i in range(STREAMS):
        weight = tl.sum(tl.where(k == i, gates + PRE_EPS, 0.0), axis=0)
        for first in range(0, HIDDEN, BLOCK_HIDDEN):
            there = first + lanes < HIDDEN
            w = i * HIDDEN + first + lanes
            rows = k[:, None] * (STREAMS * HIDDEN) + w[None, :]
            phis = tl.load(phi + rows, mask=real[:, None] & there[None, :], other=0.0)
            back = tl.sum(phis * to_sums[:, None], axis=0)
            if GAMMA:
                back = back * tl.load(gamma + w, mask=there, other=0.0)
            v = tl.load(streams + w, mask=there, other=0.0).to(tl.float32)
            total = back + of_norm * v
            total += weight * tl.load(read + first + lanes, mask=there, other=0.0).to(tl.float32)
            into = grad_x + token * (STREAMS * HIDDEN) + w
            tl.store(into, total.to(grad_x.dtype.element_ty), mask=there)


@triton.jit
def read_columns_kernel(
    x,
    phi,
    gamma,
    grad_sums,
    grad_phi,
    grad_gamma,
    tokens,
    WIDTH: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    GAMMA: tl.constexpr,
):
    """One program computes columns of the gradients of ``phi`` and ``gamma``: sums over tokens, in parts."""
    w = tl.program_id(0) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    k = tl.arange(0, PADDED)
    there, real = w < WIDTH, k < MIXES
    mask = real[:, None] & there[None, :]
    to_phi = tl.zeros([PADDED, BLOCK_HIDDEN], tl.float32)
    for first in range(0, tokens, BLOCK_TOKENS):
        part = tl.zeros([PADDED, BLOCK_HIDDEN], tl.float32)
        for token in range(first, tl.minimum(first + BLOCK_TOKENS, tokens)):
            v = tl.load(x + tl.cast(token, tl.int64) * WIDTH + w, mask=there, other=0.0).to(tl.float32)
            sums = tl.load(grad_sums + tl.cast(token, tl.int64) * MIXES + k, mask=real, other=0.0)
            part += sums[:, None] * v[None, :]
        to_phi += part
    if GAMMA:
        # Both gradients are sums of the same products: of phi times gamma, of gamma times phi.
        phis = tl.load(phi + k[:, None] * WIDTH + w[None, :], mask=mask, other=0.0)
        tl.store(grad_gamma + w, tl.sum(phis * to_phi, axis=0), mask=there)
        to_phi = to_phi * tl.load(gamma + w, mask=there, other=0.0)[None, :]
    tl.store(grad_phi + k[:, None] * WIDTH + w[None, :], to_phi, mask=mask)


@triton.jit
def read_small_kernel(
    m,
    grad_logits,
    grad_alpha,
    grad_bias,
    tokens,
    STREAMS: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    WRITES_BACK: tl.constexpr,
):
    """The only program computes the gradients of ``alpha`` and ``bias``: sums over tokens, in parts."""
    k = tl.arange(0, PADDED)
    real = k < MIXES
    to_bias = tl.zeros([PADDED], tl.float32)
    to_alpha = tl.zeros([PADDED], tl.float32)
    for first in range(0, tokens, BLOCK_TOKENS):
        bias_part = tl.zeros([PADDED], tl.float32)
        alpha_part = tl.zeros([PADDED], tl.float32)
        for token in range(first, tl.minimum(first + BLOCK_TOKENS, tokens)):
            grads = tl.load(grad_logits + tl.cast(token, tl.int64) * MIXES + k, mask=real, other=0.0)
            bias_part += grads
            alpha_part += grads * tl.load(m + tl.cast(token, tl.int64) * MIXES + k, mask=real, other=0.0)
        to_bias += bias_part
        to_alpha += alpha_part
    tl.store(grad_bias + k, to_bias, mask=real)
    tl.store(grad_alpha, tl.sum(tl.where(k < STREAMS, to_alpha, 0.0), axis=0))
    if WRITES_BACK:
        post = (k >= STREAMS) & (k < 2 * STREAMS)
        tl.store(grad_alpha + 1, tl.sum(tl.where(post, to_alpha, 0.0), axis=0))
        tl.store(grad_alpha + 2, tl.sum(tl.where(k >= 2 * STREAMS, to_alpha, 0.0), axis=0))
