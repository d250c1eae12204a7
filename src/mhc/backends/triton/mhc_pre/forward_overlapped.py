"""The device code of a read for tensor cores, where x is read for h_in while it is in the cache.

1. :func:`~mhc.backends.triton.mhc_pre.forward_products.weights_kernel`, which also sets the counters to zero;
2. :func:`project_strip_kernel`: a program keeps the weights of a strip of columns in shared memory, and multiplies one
   block of tokens after the other by them;
3. :func:`read_kernel`: a program waits until all strips of its tokens are there, adds them up, and has x again. It
   normalises what it has read where a weight of RMSNorm is given.

On NVIDIA each launch may begin while the one before it runs. A program of the second waits for the end of the first,
and for nothing else. The third may begin when all programs of the second are past that wait: so a program of the third
never waits for one that cannot run, however few run at a time. In the interpreter the programs run one after the
other, in the order of the launches.

For few tokens (the variant ``few``) there are two launches and no counters: a program of the projection makes its part
of the weights itself, and :func:`read_kernel` waits for the end of that launch. There a strip is spread over ``SPLIT``
programs; all sums have the same order as among many tokens, and so the same bits.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from mhc.backends.triton.mhc_pre.equations import gates, halves, plus, reciprocal_rms, sigmoid, store_normed

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


@triton.jit
def weights_tile(
    weights,
    phi,
    gamma,
    columns,
    k,
    WIDTH: tl.constexpr,
    LINE: tl.constexpr,
    MIXES: tl.constexpr,
    PADDED: tl.constexpr,
    FORM: tl.constexpr,
):
    """Return a tile of the weights: what ``weights_kernel`` has stored, or made of phi where ``weights`` is None.

    The three parts of the weights lie next to each other, the smallest first, as the sum over them begins there.
    """
    part = (columns // PADDED if FORM == "ieee" else 2 - columns // PADDED)[None, :]
    mix = (columns % PADDED)[None, :]
    if weights is not None:
        tile = tl.load(weights + (part * PADDED + mix) * LINE + k[:, None], mask=part >= 0, other=0.0)
    else:
        inside = (part >= 0) & (mix < MIXES) & (k < WIDTH)[:, None]
        tile = tl.load(phi + mix * WIDTH + k[:, None], mask=inside, other=0.0)
        if gamma is not None:
            tile *= tl.load(gamma + k, mask=k < WIDTH, other=0.0)[:, None]
        if FORM == "bf16x3":
            high, middle, rest = halves(tile)
            tile = tl.where(part == 0, high, tl.where(part == 1, middle, rest.to(tl.bfloat16)))
    return tile


@triton.jit
def prefetch(rows, some, first, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    """Bring ``COLUMNS`` columns of some rows to the L2 cache, which is right while another launch still writes them.

    ``rows`` are pointers to the beginnings of rows of ``WIDTH`` elements.
    """
    LINE: tl.constexpr = 1024 // rows.dtype.element_ty.primitive_bitwidth  # elements of a line of the cache
    k = first + LINE * tl.arange(0, COLUMNS // LINE)
    address = (rows[:, None] + k[None, :]).to(tl.int64)
    asked = (some[:, None] & (k < WIDTH)[None, :]).to(tl.int32)
    code: tl.constexpr = "{ .reg .pred p; setp.ne.s32 p, $2, 0; @p prefetch.global.L2 [$1]; mov.b32 $0, 0; }"
    tl.inline_asm_elementwise(code, "=r,l,r", [address, asked], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def written(values, layer, h_post, h_res, row, STREAMS: tl.constexpr):
    """Return what ``mhc_post`` makes of the streams and the layer's output of a token: the same bits, in x's dtype."""
    streams = ()
    for j in tl.static_range(STREAMS):
        streams = streams + (values[j].to(tl.float32),)
    made = ()
    for i in tl.static_range(STREAMS):
        place = row * STREAMS + i
        total = tl.load(h_post + place) * layer.to(tl.float32)
        for j in tl.static_range(STREAMS):
            weight = tl.load(h_res + place * STREAMS + j)
            total = tl.fma(weight + tl.zeros_like(total), streams[j], total)
        made = made + (total.to(layer.dtype),)
    return made


@triton.jit(do_not_specialize=["tokens", "groups"])
def project_strip_kernel(
    x,
    weights,
    phi,
    gamma,
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
    AHEAD: tl.constexpr,
):
    """One program takes each ``groups``-th block of tokens through one strip, of ``STEPS`` tiles of the width.

    ``sums`` is [tokens, STRIPS, PADDED]. ``weights`` are None where a program makes them of phi and gamma, and
    ``counters`` where the next launch waits for the end of this one. Phi, and x of the first ``AHEAD`` groups, come
    nearer while the launch before this one ends.
    """
    strip = tl.program_id(0) % STRIPS
    group = tl.program_id(0) // STRIPS
    first = strip * (STEPS * BLOCK_WIDTH)
    if BESIDE:
        if weights is None:
            mix = tl.arange(0, PADDED)
            prefetch(phi + mix * WIDTH, mix < MIXES, first, WIDTH, STEPS * BLOCK_WIDTH)
            row = group * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
            near = (row < tokens) & (group < AHEAD)
            prefetch(x + row.to(tl.int64) * WIDTH, near, first, WIDTH, STEPS * BLOCK_WIDTH)
        # The weights, and the zeros in the counters, have to be there for the next launch too.
        gdc_wait()
        gdc_launch_dependents()
    mixes = tl.arange(0, PADDED)
    columns = tl.arange(0, PARTS * PADDED)
    tiles = ()
    for step in tl.static_range(STEPS):
        k = first + step * BLOCK_WIDTH + tl.arange(0, BLOCK_WIDTH)
        tiles = tiles + (weights_tile(weights, phi, gamma, columns, k, WIDTH, LINE, MIXES, PADDED, FORM),)
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
        if counters is not None:
            publish(counters + block * COUNTER, BESIDE)


@triton.jit
def read_kernel(
    x,
    sums,
    counters,
    alpha,
    bias,
    pre,
    h_in,
    h_pre,
    h_post,
    h_res,
    m,
    r,
    norm_weight,
    normed,
    s,
    scales,
    y,
    written_post,
    written_res,
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
    SPLIT: tl.constexpr,
    BESIDE: tl.constexpr,
    POWERS: tl.constexpr,
):
    """One program computes one token; a counter is for ``COUNTED`` of them, and None where the launch before has none.

    ``sums`` is [tokens, STRIPS, SPLIT, PADDED]. With ``pre`` the weights of the read are given. What an operator does
    not have is None: h_in where it reads nothing, h_pre, h_post and h_res, and the weight and results of a norm. With
    ``y`` the streams that are read are those that ``mhc_post`` makes of x, y and the coefficients behind it; the launch
    before has stored them.
    """
    WIDTH: tl.constexpr = STREAMS * HIDDEN

    token = tl.program_id(0)
    row = token.to(tl.int64)
    d = tl.arange(0, BLOCK_HIDDEN)
    # x, alpha and bias are asked for before the wait, which they do not depend on; nothing reads x later.
    values = ()
    for stream in tl.static_range(STREAMS):
        values = values + (
            tl.load(x + row * WIDTH + stream * HIDDEN + d, mask=d < HIDDEN, other=0.0, eviction_policy="evict_first"),
        )
    if y is not None:
        layer = tl.load(y + row * HIDDEN + d, mask=d < HIDDEN, other=0.0)
        values = written(values, layer, written_post, written_res, row, STREAMS)
    square = tl.zeros([BLOCK_HIDDEN], dtype=tl.float32)
    for stream in tl.static_range(STREAMS):
        v = by_bits(values[stream])
        square += v * v
    reciprocal = reciprocal_rms(tl.sum(square, axis=0), WIDTH, NORM_EPS)
    mixes = tl.arange(0, PADDED)
    gate = gates(alpha, mixes, STREAMS, MIXES)
    shift = tl.load(bias + mixes, mask=mixes < MIXES, other=0.0)

    if counters is not None:
        counter = counters + (token // COUNTED) * COUNTER
        while tl.atomic_add(counter, 0, sem="acquire", scope="gpu") < STRIPS:
            pass
    elif BESIDE:
        gdc_launch_dependents()  # what comes next waits for the end of this launch by itself
        gdc_wait()
    strips = tl.arange(0, BLOCK_STRIPS)
    some = (strips < STRIPS)[:, None] & (mixes < MIXES)[None, :]
    place = sums + row * (STRIPS * SPLIT * PADDED) + strips[:, None] * (SPLIT * PADDED) + mixes[None, :]
    total = tl.load(place, mask=some, other=0.0)
    for part in tl.static_range(1, SPLIT):
        total += tl.load(place + part * PADDED, mask=some, other=0.0)
    projection = tl.sum(total, axis=0) * reciprocal
    logit = gate * projection + shift
    weight = sigmoid(logit)
    tl.store(r + row, reciprocal)
    tl.store(m + row * MIXES + mixes, projection, mask=mixes < MIXES)
    if h_pre is not None:
        tl.store(h_pre + row * STREAMS + mixes, weight + PRE_EPS, mask=mixes < STREAMS)
    if MIXES > STREAMS:
        post = (mixes >= STREAMS) & (mixes < 2 * STREAMS)
        tl.store(h_post + row * STREAMS + (mixes - STREAMS), POST_SCALE * weight, mask=post)
        res = (mixes >= 2 * STREAMS) & (mixes < MIXES)
        tl.store(h_res + row * (MIXES - 2 * STREAMS) + (mixes - 2 * STREAMS), logit, mask=res)
    if h_in is not None:
        layer_input = tl.zeros([BLOCK_HIDDEN], dtype=tl.float32)
        for stream in tl.static_range(STREAMS):
            # A scalar: a tensor would give its layout, which is for a few elements, to x.
            if pre is not None:
                h = tl.load(pre + row * STREAMS + stream)
            else:
                h = tl.sum(tl.where(mixes == stream, weight, 0.0), axis=0) + PRE_EPS
            layer_input += h * values[stream].to(tl.float32)
        # The cast rounds to nearest even.
        read = layer_input.to(h_in.dtype.element_ty)
        tl.store(h_in + row * HIDDEN + d, read, mask=d < HIDDEN)
        if norm_weight is not None:
            value = read.to(tl.float32)
            norm = reciprocal_rms(tl.sum(value * value, axis=0), HIDDEN, NORM_EPS)
            tl.store(s + row, norm)
            value = value * norm * tl.load(norm_weight + d, mask=d < HIDDEN, other=0.0)
            value = value.to(h_in.dtype.element_ty)
            store_normed(value[None, :], normed, scales, row[None], token[None] >= 0, 0, HIDDEN, POWERS)
