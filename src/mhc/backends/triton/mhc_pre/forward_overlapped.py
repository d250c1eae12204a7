"""The device code of ``mhc_pre`` and ``mhc_head`` for tensor cores, where x is read for h_in while it is in the cache.

1. :func:`~mhc.backends.triton.mhc_pre.forward_products.weights_kernel`, which also sets the counters to zero;
2. :func:`project_strip_kernel`: a program keeps the weights of a strip of columns in shared memory, and multiplies one
   block of tokens after the other by them;
3. :func:`read_kernel`: a program waits until all strips of its tokens are there, adds them up, and reads x again.

The third launch runs beside the second one on NVIDIA from sm_90 on: it may begin as soon as all programs of the second
have begun, and these wait for nothing. So a program of the third never waits for one that cannot run. Elsewhere
the launches run one after the other, and no program ever waits.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

from mhc.backends.triton.mhc_pre.equations import gates, plus, reciprocal_rms, sigmoid

# Elements between two counters, so that no two of them are in one line of the cache.
COUNTER: tl.constexpr = tl.constexpr(32)


@triton.jit
def publish(counter, BESIDE: tl.constexpr):
    """Count one more strip, after all that this program has stored."""
    if BESIDE:
        # The barrier of Triton's own would keep the compiler from loading x ahead of its use.
        tl.inline_asm_elementwise("bar.sync 0; mov.b32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.atomic_add(counter, 1, sem="release", scope="gpu")


@triton.jit
def by_bits(value):
    """Return what ``value.to(tl.float32)`` is, in words that make it another value for the compiler.

    It would keep the fp32 number until the other use of it, and there are twice as many registers in that.
    """
    if value.dtype == tl.bfloat16:
        result = (value.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    else:
        result = value.to(tl.float32)
    return result


@triton.jit(do_not_specialize=["tokens", "groups"])
def project_strip_kernel(
    x,
    weights,
    sums,
    counters,
    tokens,
    groups,
    WIDTH: tl.constexpr,
    LINE: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
    BESIDE: tl.constexpr,
    STRIPS: tl.constexpr,
    STEPS: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program takes each ``groups``-th block of tokens through one strip, of ``STEPS`` tiles of the width.

    ``sums`` is [tokens, STRIPS, PADDED].
    """
    if BESIDE:
        gdc_launch_dependents()
    strip = tl.program_id(0) % STRIPS
    first = strip * (STEPS * BLOCK_WIDTH)
    mixes = tl.arange(0, PADDED)
    # The three parts of the weights beside each other, the smallest first, as the sum over them begins there.
    columns = tl.arange(0, PARTS * PADDED)
    part = columns // PADDED if FORM == "ieee" else 2 - columns // PADDED
    tiles = ()
    for step in tl.static_range(STEPS):
        k = first + step * BLOCK_WIDTH + tl.arange(0, BLOCK_WIDTH)
        place = weights + (part * PADDED + columns % PADDED)[None, :] * LINE + k[:, None]
        tiles = tiles + (tl.load(place, mask=(part >= 0)[None, :], other=0.0),)
    group = tl.program_id(0) // STRIPS
    for block in tl.range(group, tl.cdiv(tokens, BLOCK_TOKENS), groups, num_stages=STAGES):
        rows = (block + tl.zeros([], dtype=tl.int64)) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
        real = rows < tokens
        total = tl.zeros([BLOCK_TOKENS, PADDED], dtype=tl.float32)
        for step in tl.static_range(STEPS):
            k = first + step * BLOCK_WIDTH + tl.arange(0, BLOCK_WIDTH)
            mask = real[:, None] & (k < WIDTH)[None, :]
            value = tl.load(x + rows[:, None] * WIDTH + k[None, :], mask=mask, other=0.0)
            if FORM == "bf16x3":
                product = tl.sum(tl.reshape(tl.dot(value, tiles[step]), [BLOCK_TOKENS, PARTS, PADDED]), axis=1)
            else:
                product = tl.dot(value.to(tl.float32), tiles[step], input_precision="ieee")
            total = plus(total, product)
        into = sums + (rows[:, None] * STRIPS + strip) * PADDED + mixes[None, :]
        tl.store(into, total, mask=real[:, None] & (mixes < MIXES)[None, :])
        publish(counters + block * COUNTER, BESIDE)


@triton.jit
def read_kernel(
    x,
    sums,
    counters,
    alpha,
    bias,
    h_in,
    h_post,
    h_res,
    m,
    r,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    NORM_EPS: tl.constexpr,
    PRE_EPS: tl.constexpr,
    POST_SCALE: tl.constexpr,
    STRIPS: tl.constexpr,
    BLOCK_STRIPS: tl.constexpr,
    COUNTED: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes one token; a counter is for ``COUNTED`` of them.

    h_post and h_res are None for ``mhc_head``.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN

    token = tl.program_id(0)
    row = token.to(tl.int64)
    d = tl.arange(0, BLOCK_HIDDEN)
    # x is asked for before the wait, which it does not depend on; nothing reads it later.
    values = ()
    for stream in tl.static_range(STREAMS):
        values = values + (
            tl.load(x + row * WIDTH + stream * HIDDEN + d, mask=d < HIDDEN, other=0.0, eviction_policy="evict_first"),
        )
    square = tl.zeros([BLOCK_HIDDEN], dtype=tl.float32)
    for stream in tl.static_range(STREAMS):
        v = by_bits(values[stream])
        square += v * v
    reciprocal = reciprocal_rms(tl.sum(square, axis=0), WIDTH, NORM_EPS)

    counter = counters + (token // COUNTED) * COUNTER
    while tl.atomic_add(counter, 0, sem="acquire", scope="gpu") < STRIPS:
        pass
    mixes = tl.arange(0, PADDED)
    strips = tl.arange(0, BLOCK_STRIPS)
    some = (strips < STRIPS)[:, None] & (mixes < MIXES)[None, :]
    place = sums + row * (STRIPS * PADDED) + strips[:, None] * PADDED + mixes[None, :]
    total = tl.sum(tl.load(place, mask=some, other=0.0), axis=0)
    projection = total * reciprocal
    logit = gates(alpha, mixes, STREAMS, MIXES) * projection
    logit += tl.load(bias + mixes, mask=mixes < MIXES, other=0.0)
    weight = sigmoid(logit)
    tl.store(r + row, reciprocal)
    tl.store(m + row * MIXES + mixes, projection, mask=mixes < MIXES)
    if MIXES > STREAMS:
        post = (mixes >= STREAMS) & (mixes < 2 * STREAMS)
        tl.store(h_post + row * STREAMS + (mixes - STREAMS), POST_SCALE * weight, mask=post)
        res = (mixes >= 2 * STREAMS) & (mixes < MIXES)
        tl.store(h_res + row * (STREAMS * STREAMS) + (mixes - 2 * STREAMS), logit, mask=res)
    layer_input = tl.zeros([BLOCK_HIDDEN], dtype=tl.float32)
    for stream in tl.static_range(STREAMS):
        # A scalar: of a tensor the compiler would give x the layout, which is that of a few elements.
        h_pre = tl.sum(tl.where(mixes == stream, weight, 0.0), axis=0) + PRE_EPS
        layer_input += h_pre * values[stream].to(tl.float32)
    # The cast rounds to nearest even.
    tl.store(h_in + row * HIDDEN + d, layer_input.to(h_in.dtype.element_ty), mask=d < HIDDEN)
