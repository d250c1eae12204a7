"""The device code of the gradients of ``mhc_pre`` and ``mhc_head``.

With q_o the dot product of v · gamma and row o of phi, m_o = q_o · r, and z_o = alpha · m_o + bias_o::

    c_o    = alpha · dz_o · r                       the gradient of q_o
    slope  = -(Σₒ alpha · dz_o · q_o) · r³ / width  what the root mean square gives, a multiple of v
    dx     = gamma · Σₒ c_o · phi_o + slope · v + h_pre · dh_in
    S_o    = Σₜ c_o · v                             then  dphi_o = gamma · S_o  and  dgamma = Σₒ phi_o · S_o

Sums over tokens go through partial sums in a fixed order, as atomics would take another order each time:

1. :func:`coefficients_kernel`, by tokens: c, h_pre and slope, and partial sums of dz and dz · m;
2. :func:`alpha_bias_kernel` adds those up;
3. :func:`stream_kernel`, by chunks of tokens and columns: dx, and S of the chunk;
4. :func:`phi_gamma_kernel` adds the chunks up.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.mhc_pre.forward import project, sigmoid
from mhc.backends.triton.vectors import fold, span


@triton.jit(do_not_specialize=["tokens"])
def coefficients_kernel(
    x,
    phi,
    alpha,
    bias,
    gamma,
    grad_h_in,
    grad_h_post,
    grad_h_res,
    coefficients,
    partial,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    NORM_EPS: tl.constexpr,
    PRE_EPS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` tokens, in the tiles of the forward.

    ``coefficients`` is [MIXES + n + 1, tokens] for c, h_pre and slope; ``partial`` is
    [2 · MIXES, programs] for dz and dz · m.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN

    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    x_rows = x + rows[:, None] * WIDTH

    products = ()
    for _ in tl.static_range(STREAMS):
        products = products + (tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN // VECTOR], dtype=tl.float32),)
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = span(start, BLOCK_HIDDEN, VECTOR)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        grad = tl.load(grad_h_in + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0).to(tl.float32)
        added = ()
        for stream in tl.static_range(STREAMS):
            value = tl.load(x_rows + (stream * HIDDEN + d)[None, :], mask=mask, other=0.0)
            added = added + (products[stream] + fold(grad * value.to(tl.float32), VECTOR),)
        products = added
    grad_h_pre = ()
    for stream in tl.static_range(STREAMS):
        grad_h_pre = grad_h_pre + (tl.sum(products[stream], axis=1),)

    r, sums = project(x_rows, real, phi, gamma, WIDTH, MIXES, NORM_EPS, BLOCK_TOKENS, BLOCK_WIDTH, VECTOR)

    # 64 bits: mixes · tokens could pass 2³¹.
    long = tl.zeros([], dtype=tl.int64) + tokens
    programs = tl.num_programs(0).to(tl.int64)
    grad_r = tl.zeros([BLOCK_TOKENS], dtype=tl.float32)
    for mix in tl.static_range(MIXES):
        gate = tl.load(alpha + (0 if mix < STREAMS else 1 if mix < 2 * STREAMS else 2))
        dot = tl.sum(sums[mix], axis=1)
        logit = gate * (dot * r) + tl.load(bias + mix)
        # Rows past the last token get no gradient here, and so add nothing to the sums over tokens.
        if mix < STREAMS:
            weight = sigmoid(logit)
            tl.store(coefficients + (MIXES + mix) * long + rows, weight + PRE_EPS, mask=real)
            grad_logit = grad_h_pre[mix] * weight * (1.0 - weight)
        elif mix < 2 * STREAMS:
            weight = sigmoid(logit)
            grad = tl.load(grad_h_post + rows * STREAMS + (mix - STREAMS), mask=real, other=0.0)
            grad_logit = 2.0 * grad * weight * (1.0 - weight)
        else:
            place = rows * (STREAMS * STREAMS) + (mix - 2 * STREAMS)
            grad_logit = tl.load(grad_h_res + place, mask=real, other=0.0)
        grad_m = gate * grad_logit
        grad_r += grad_m * dot
        tl.store(coefficients + mix * long + rows, grad_m * r, mask=real)
        tl.store(partial + mix * programs + tl.program_id(0), tl.sum(grad_logit, axis=0))
        tl.store(partial + (MIXES + mix) * programs + tl.program_id(0), tl.sum(grad_logit * (dot * r), axis=0))
    slope = -grad_r * (r * r * r) / WIDTH
    tl.store(coefficients + (MIXES + STREAMS) * long + rows, slope, mask=real)


@triton.jit(do_not_specialize=["programs"])
def alpha_bias_kernel(
    partial, grad_alpha, grad_bias, programs, STREAMS: tl.constexpr, MIXES: tl.constexpr, BLOCK: tl.constexpr
):
    """One program adds up one bias, and after those one alpha: its rows of ``partial`` lie one after the other."""
    result = tl.program_id(0).to(tl.int64)
    gate = result - MIXES
    rows = tl.where(gate == 2, STREAMS * STREAMS, STREAMS)
    first = tl.where(gate < 0, result, MIXES + gate * STREAMS) * programs
    length = tl.where(gate < 0, 1, rows) * programs
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, length, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        sums += tl.load(partial + first + offsets, mask=offsets < length, other=0.0)
    total = tl.sum(sums, axis=0)
    # Two stores, as Triton's compiler for AMD fails on a choice between two pointers.
    tl.store(grad_bias + result, total, mask=gate < 0)
    tl.store(grad_alpha + gate, total, mask=gate >= 0)


@triton.jit(do_not_specialize=["tokens", "chunk"])
def stream_kernel(
    x,
    phi,
    gamma,
    grad_h_in,
    coefficients,
    grad_x,
    chunks,
    tokens,
    chunk,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """One program takes ``chunk`` tokens through ``BLOCK_HIDDEN`` columns of one stream.

    ``chunks`` is [chunks, MIXES, width]. A thread owns ``VECTOR`` columns of every row: it keeps phi and the sums over
    tokens of its columns in registers, and loads ``ROWS`` tiles at once, not to wait for each.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN
    BLOCKS: tl.constexpr = (HIDDEN + BLOCK_HIDDEN - 1) // BLOCK_HIDDEN

    stream = tl.program_id(0) // BLOCKS
    d = span((tl.program_id(0) % BLOCKS) * BLOCK_HIDDEN, BLOCK_HIDDEN, VECTOR)
    inside = d < HIDDEN
    k = stream * HIDDEN + d

    weights = ()
    sums = ()
    for mix in tl.static_range(MIXES):
        weights = weights + (tl.load(phi + mix * WIDTH + k, mask=inside, other=0.0),)
        sums = sums + (tl.zeros([BLOCK_HIDDEN], dtype=tl.float32),)
    scale = tl.zeros([BLOCK_HIDDEN], dtype=tl.float32) + 1.0
    if gamma is not None:
        scale = tl.load(gamma + k, mask=inside, other=0.0)

    long = tl.zeros([], dtype=tl.int64) + tokens
    first = tl.program_id(1).to(tl.int64) * chunk
    last = tl.minimum(first + chunk, long)
    for start in range(first, last, ROWS * BLOCK_TOKENS):
        values = ()
        grads = ()
        totals = ()
        for row in tl.static_range(ROWS):
            rows = start + row * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
            mask = (rows < last)[:, None] & inside[None, :]
            value = tl.load(x + rows[:, None] * WIDTH + k[None, :], mask=mask, other=0.0)
            grad = tl.load(grad_h_in + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0)
            values = values + (value.to(tl.float32),)
            grads = grads + (grad.to(tl.float32),)
            totals = totals + (tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32),)
        added = ()
        for mix in tl.static_range(MIXES):
            sum_of_mix = sums[mix]
            more = ()
            for row in tl.static_range(ROWS):
                rows = start + row * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
                c = tl.load(coefficients + mix * long + rows, mask=rows < last, other=0.0)[:, None]
                more = more + (totals[row] + c * weights[mix][None, :],)
                sum_of_mix += tl.sum(c * values[row], axis=0)
            totals = more
            added = added + (sum_of_mix,)
        sums = added
        for row in tl.static_range(ROWS):
            rows = start + row * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
            real = rows < last
            h_pre = tl.load(coefficients + (MIXES + stream) * long + rows, mask=real, other=0.0)[:, None]
            slope = tl.load(coefficients + (MIXES + STREAMS) * long + rows, mask=real, other=0.0)[:, None]
            total = totals[row] * scale[None, :] + slope * values[row] + h_pre * grads[row]
            place = grad_x + rows[:, None] * WIDTH + k[None, :]
            # The cast rounds to nearest even.
            tl.store(place, total.to(grad_x.dtype.element_ty), mask=real[:, None] & inside[None, :])

    into = chunks + tl.program_id(1).to(tl.int64) * (MIXES * WIDTH)
    for mix in tl.static_range(MIXES):
        tl.store(into + mix * WIDTH + k, sums[mix], mask=inside)


@triton.jit(do_not_specialize=["count"])
def phi_gamma_kernel(
    phi,
    gamma,
    chunks,
    grad_phi,
    grad_gamma,
    count,
    WIDTH: tl.constexpr,
    MIXES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program adds up ``BLOCK`` columns over the ``count`` chunks."""
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < WIDTH
    sums = ()
    for _ in tl.static_range(MIXES):
        sums = sums + (tl.zeros([BLOCK], dtype=tl.float32),)
    place = k.to(tl.int64)
    for _ in range(count):
        added = ()
        for mix in tl.static_range(MIXES):
            added = added + (sums[mix] + tl.load(chunks + place + mix * WIDTH, mask=inside, other=0.0),)
        sums = added
        place += MIXES * WIDTH

    if gamma is None:
        for mix in tl.static_range(MIXES):
            tl.store(grad_phi + mix * WIDTH + k, sums[mix], mask=inside)
    else:
        scale = tl.load(gamma + k, mask=inside, other=0.0)
        total = tl.zeros([BLOCK], dtype=tl.float32)
        for mix in tl.static_range(MIXES):
            total += tl.load(phi + mix * WIDTH + k, mask=inside, other=0.0) * sums[mix]
            tl.store(grad_phi + mix * WIDTH + k, scale * sums[mix], mask=inside)
        tl.store(grad_gamma + k, total, mask=inside)
