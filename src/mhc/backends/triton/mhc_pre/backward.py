"""The device code of the gradients of ``mhc_pre`` and ``mhc_head``.

With the forward's m and r, q_o = m_o / r, and z_o = alpha · m_o + bias_o::

    c_o    = alpha · dz_o · r                       the gradient of q_o
    slope  = -(Σₒ alpha · dz_o · m_o) · r² / width  what the root mean square gives, a multiple of v
    dx     = gamma · Σₒ c_o · phi_o + slope · v + h_pre · dh_in
    S_o    = Σₜ c_o · v                             then  dphi_o = gamma · S_o  and  dgamma = Σₒ phi_o · S_o

Sums over tokens go through partial sums in a fixed order, as atomics would take another order each time:

1. :func:`coefficients_kernel`, by tokens: c, h_pre and slope, and partial sums of dz and dz · m. Other programs of
   the launch make the weights, where the next one needs some;
2. :func:`stream_kernel`, by chunks of tokens and columns: dx, and S of the chunk; it keeps all mixes in registers, and
   :mod:`~mhc.backends.triton.mhc_pre.backward_products` has it for many mixes and for tensor cores;
3. :func:`~mhc.backends.triton.mhc_pre.backward_sums.sums_kernel` adds up the chunks, and in other programs the partial
   sums.

A launch more would take longer than what these other programs do.

A gradient that is not asked for is None. The bits of the others stay the same: the code of one
does not mix with another.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.mhc_pre.equations import gates, halves, sigmoid, to_tf32
from mhc.backends.triton.mhc_pre.forward_products import make_weights
from mhc.backends.triton.vectors import span


@triton.jit
def dot_with_stream(
    x_row,
    grad_row,
    real,
    stream,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """Return the dot product of each token's gradient and one of its streams."""
    total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = start + tl.arange(0, BLOCK_HIDDEN)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        grad = tl.load(grad_row + d[None, :], mask=mask, other=0.0).to(tl.float32)
        value = tl.load(x_row + (stream * HIDDEN + d)[None, :], mask=mask, other=0.0).to(tl.float32)
        total += grad * value
    return tl.sum(total, axis=1)


@triton.jit
def dot_with_streams(
    x_row,
    grad_row,
    real,
    mixes,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Return the gradients of h_pre in the first columns of a tile of tokens by mixes; the others are zero."""
    result = tl.zeros([BLOCK_TOKENS, BLOCK_MIXES], dtype=tl.float32)
    if STREAMS <= 4:
        # All streams in one pass over the gradient.
        products = ()
        for _ in tl.static_range(STREAMS):
            products = products + (tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32),)
        for start in tl.range(0, HIDDEN, BLOCK_HIDDEN, num_stages=STAGES):
            d = start + tl.arange(0, BLOCK_HIDDEN)
            mask = real[:, None] & (d < HIDDEN)[None, :]
            grad = tl.load(grad_row + d[None, :], mask=mask, other=0.0).to(tl.float32)
            added = ()
            for stream in tl.static_range(STREAMS):
                value = tl.load(x_row + (stream * HIDDEN + d)[None, :], mask=mask, other=0.0)
                added = added + (products[stream] + grad * value.to(tl.float32),)
            products = added
        for stream in tl.static_range(STREAMS):
            result = tl.where((mixes == stream)[None, :], tl.sum(products[stream], axis=1)[:, None], result)
    else:
        for stream in range(STREAMS):
            product = dot_with_stream(x_row, grad_row, real, stream, HIDDEN, BLOCK_TOKENS, BLOCK_HIDDEN)
            result = tl.where((mixes == stream)[None, :], product[:, None], result)
    return result


@triton.jit(do_not_specialize=["tokens"])
def coefficients_kernel(
    x,
    alpha,
    bias,
    m,
    r,
    pre,
    grad_h_in,
    grad_h_pre,
    grad_h_post,
    grad_h_res,
    grad_pre,
    coefficients,
    scales,
    partial,
    phi,
    gamma,
    weights,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    PRE_EPS: tl.constexpr,
    POST_SCALE: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    STAGES: tl.constexpr,
    LINE: tl.constexpr,
    TILE_MIXES: tl.constexpr,
    TILE: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` tokens; after those, each makes one tile of the weights, unless None.

    Where h_pre is an output, ``grad_h_pre`` is its gradient; else it follows from ``grad_h_in``. Where the weights
    ``pre`` of the read are given, theirs follows from it.

    ``coefficients`` is [tokens, PADDED] for c, zero in the padding, and rounded as the products with it need it; in the
    form ``bf16x3`` it is [3, tokens, PADDED], the three bf16 numbers whose sum is c.
    ``scales`` is [n + 1, tokens] for h_pre, or ``pre`` where it is given, and slope; ``partial`` is [2 · MIXES,
    programs of tokens] for dz and dz · m.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN

    tile = tl.program_id(0) - tl.cdiv(tokens, BLOCK_TOKENS)
    if tile < 0:
        rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
        real = rows < tokens
        row = rows[:, None]
        mixes = tl.arange(0, BLOCK_MIXES)
        mix = mixes[None, :]
        mask = real[:, None] & (mix < MIXES)
        of_pre = real[:, None] & (mix < STREAMS)
        if grad_h_in is not None:
            to_weights = dot_with_streams(
                x + row * WIDTH,
                grad_h_in + row * HIDDEN,
                real,
                mixes,
                STREAMS,
                HIDDEN,
                BLOCK_TOKENS,
                BLOCK_MIXES,
                BLOCK_HIDDEN,
                STAGES,
            )
        if grad_pre is not None:
            tl.store(grad_pre + row * STREAMS + mix, to_weights, mask=of_pre)
        if grad_h_pre is not None:
            to_weights = tl.load(grad_h_pre + row * STREAMS + mix, mask=of_pre, other=0.0)

        projection = tl.load(m + row * MIXES + mix, mask=mask, other=0.0)
        reciprocal = tl.load(r + rows, mask=real, other=0.0)
        gate = gates(alpha, mixes, STREAMS, MIXES)[None, :]
        weight = sigmoid(gate * projection + tl.load(bias + mixes, mask=mixes < MIXES, other=0.0)[None, :])
        # Rows past the last token get no gradient here, and so add nothing to the sums over tokens.
        grad_logit = to_weights * weight * (1.0 - weight)
        if MIXES > STREAMS:
            post = real[:, None] & (mix >= STREAMS) & (mix < 2 * STREAMS)
            grad = tl.load(grad_h_post + row * STREAMS + (mix - STREAMS), mask=post, other=0.0)
            grad_logit = tl.where(mix < STREAMS, grad_logit, POST_SCALE * grad * weight * (1.0 - weight))
            res = mask & (mix >= 2 * STREAMS)
            grad = tl.load(grad_h_res + row * (MIXES - 2 * STREAMS) + (mix - 2 * STREAMS), mask=res, other=0.0)
            grad_logit = tl.where(mix < 2 * STREAMS, grad_logit, grad)
        grad_m = gate * grad_logit
        c = grad_m * reciprocal[:, None]
        # 64 bits: mixes · tokens could pass 2³¹.
        long = tl.zeros([], dtype=tl.int64) + tokens
        place = coefficients + row * PADDED + mix
        stored = real[:, None] & (mix < PADDED)
        if FORM == "bf16x3":
            high, middle, rest = halves(c)
            tl.store(place, high, mask=stored)
            tl.store(place + long * PADDED, middle, mask=stored)
            tl.store(place + 2 * long * PADDED, rest.to(tl.bfloat16), mask=stored)
        else:
            if FORM == "tf32":
                c = to_tf32(c)
            tl.store(place, c, mask=stored)

        if pre is not None:
            tl.store(scales + mix * long + row, tl.load(pre + row * STREAMS + mix, mask=of_pre, other=0.0), mask=of_pre)
        else:
            tl.store(scales + mix * long + row, weight + PRE_EPS, mask=of_pre)
        slope = -tl.sum(grad_m * projection, axis=1) * (reciprocal * reciprocal) / WIDTH
        tl.store(scales + STREAMS * long + rows, slope, mask=real)
        programs = tl.cdiv(long, BLOCK_TOKENS)
        into = partial + mixes * programs + tl.program_id(0)
        tl.store(into, tl.sum(grad_logit, axis=0), mask=mixes < MIXES)
        tl.store(into + MIXES * programs, tl.sum(grad_logit * projection, axis=0), mask=mixes < MIXES)
    elif weights is not None:
        COLUMNS: tl.constexpr = (LINE + TILE - 1) // TILE
        tile_row, tile_column = tile // COLUMNS, tile % COLUMNS
        make_weights(phi, gamma, weights, tile_row, tile_column, WIDTH, LINE, MIXES, PADDED, FORM, TILE_MIXES, TILE)


@triton.jit
def coefficients_of(
    column, PADDED: tl.constexpr, start, row: tl.constexpr, last, BLOCK_TOKENS: tl.constexpr, MASKED: tl.constexpr
):
    """Return the coefficients of one mix for a tile of tokens, zero from ``last`` on.

    For a tile of one token it is a scalar, which has no layout: passes of the compiler that look at layouts took three
    quarters of the time. NVIDIA loads a scalar under a mask (``MASKED``); for AMD that would be a branch.
    """
    if BLOCK_TOKENS > 1:
        rows = start + row * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
        value = tl.load(column + rows * PADDED, mask=rows < last, other=0.0)[:, None]
    elif MASKED:
        value = tl.load(column + (start + row) * PADDED, mask=start + row < last, other=0.0)
    else:
        value = tl.load(column + tl.minimum(start + row, last - 1) * PADDED)
        value = tl.where(start + row < last, value, 0.0)
    return value


@triton.jit(do_not_specialize=["tokens", "chunk"])
def stream_kernel(
    x,
    phi,
    gamma,
    grad_h_in,
    coefficients,
    scales,
    added,
    grad_x,
    chunks,
    tokens,
    chunk,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    VECTOR: tl.constexpr,
    MASKED: tl.constexpr,
):
    """One program takes ``chunk`` tokens through ``BLOCK_HIDDEN`` columns of one stream.

    ``chunks`` is [chunks, MIXES, width], or None where neither phi's nor gamma's gradient is asked for; grad_x is None
    where it is not, ``added`` is None or a gradient to add to it, and grad_h_in is None where nothing was read. A
    thread owns ``VECTOR`` columns of every row: it keeps phi and the sums over tokens of its columns in registers, and
    loads ``ROWS`` tiles at once, not to wait for each.
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
        if grad_x is not None:
            weights = weights + (tl.load(phi + mix * WIDTH + k, mask=inside, other=0.0)[None, :],)
        if chunks is not None:
            sums = sums + (tl.zeros([1, BLOCK_HIDDEN], dtype=tl.float32),)
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
            values = values + (value.to(tl.float32),)
            if grad_x is not None:
                if grad_h_in is not None:
                    grad = tl.load(grad_h_in + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0)
                    grads = grads + (grad.to(tl.float32),)
                totals = totals + (tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32),)
        later = ()
        for mix in tl.static_range(MIXES):
            more = ()
            if chunks is not None:
                sum_of_mix = sums[mix]
            for row in tl.static_range(ROWS):
                c = coefficients_of(coefficients + mix, PADDED, start, row, last, BLOCK_TOKENS, MASKED)
                # What is fused is written out, so that the rest of the program has no part in it.
                if grad_x is not None:
                    more = more + (tl.fma(c, weights[mix], totals[row]),)
                if chunks is not None:
                    if BLOCK_TOKENS == 1:
                        sum_of_mix = tl.fma(c, values[row], sum_of_mix)
                    else:
                        sum_of_mix += tl.sum(c * values[row], axis=0)[None, :]
            totals = more
            if chunks is not None:
                later = later + (sum_of_mix,)
        sums = later
        if grad_x is not None:
            for row in tl.static_range(ROWS):
                rows = start + row * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
                real = rows < last
                slope = tl.load(scales + STREAMS * long + rows, mask=real, other=0.0)[:, None]
                total = tl.fma(slope, values[row], totals[row] * scale[None, :])
                if grad_h_in is not None:
                    h_pre = tl.load(scales + stream * long + rows, mask=real, other=0.0)[:, None]
                    total = tl.fma(h_pre, grads[row], total)
                place = rows[:, None] * WIDTH + k[None, :]
                mask = real[:, None] & inside[None, :]
                if added is not None:
                    total += tl.load(added + place, mask=mask, other=0.0).to(tl.float32)
                # The cast rounds to nearest even.
                tl.store(grad_x + place, total.to(grad_x.dtype.element_ty), mask=mask)

    if chunks is not None:
        into = chunks + tl.program_id(1).to(tl.int64) * (MIXES * WIDTH)
        for mix in tl.static_range(MIXES):
            tl.store(into + mix * WIDTH + k, tl.reshape(sums[mix], [BLOCK_HIDDEN]), mask=inside)
