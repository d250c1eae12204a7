"""The GPU kernels of the gradients of ``mhc_pre`` and ``mhc_head``; :mod:`.factors` says what each does."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.gpu import DTYPES, FP32, SEGMENT, add_segments, vector_of
from mhc.backends.tilelang.mhc_pre.factors import (
    COLUMN_THREADS,
    STAGE,
    columns_of_block,
    factors_of,
    gates_of,
    mixes_of,
    post_scale_of,
    writes_back,
)
from mhc.backends.tilelang.mhc_pre.forward_gpu import GROUPS, LANES, TILE
from mhc.backends.tilelang.mhc_pre.tensors import tensors_of
from mhc.ops.read import ReadSpec

TOKENS = 16  # of a block of grad_x: each piece of phi is read once for all of them
MAX_SUMS = 24  # mixes of a block of sums: a thread keeps the sums of its columns in registers
QUAD = 4  # numbers of one access to shared memory; tokens whose part of x is loaded before the first is used


def sums_of(spec: ReadSpec) -> tuple[int, int]:
    """Return the groups of mixes that blocks of ``sums`` share out, and the mixes of a group, a multiple of QUAD."""
    groups = -(-mixes_of(spec) // MAX_SUMS)
    return groups, -(-mixes_of(spec) // (groups * QUAD)) * QUAD


def add_products(spec: ReadSpec, vector: int, own: int) -> Any:
    """Return a macro: a thread's part of the products of grad_h_in with its streams, for a tile of tokens."""
    streams, hidden = spec.streams, spec.hidden

    @T.macro
    def add(x, grad_h_in, tokens, block, thread, inner, v, raw):
        for t in T.unroll(TILE):
            for i in T.unroll(own):
                inner[t, i] = T.float32(0)
        for step in T.serial(T.ceildiv(hidden, LANES * vector)):
            if (step * LANES + thread % LANES) * vector < hidden:
                for t in T.unroll(TILE):
                    # Past the last token, and past the last stream, read it again: the result is not looked at.
                    for j in T.vectorized(vector):
                        raw[j] = grad_h_in[
                            T.min(block * TILE + t, tokens - 1), (step * LANES + thread % LANES) * vector + j
                        ]
                    for j in T.unroll(vector):
                        v[j] = T.cast(raw[j], FP32)
                    for i in T.unroll(own):
                        for j in T.vectorized(vector):
                            raw[j] = x[
                                T.min(block * TILE + t, tokens - 1),
                                T.min(thread // LANES * own + i, streams - 1) * hidden
                                + (step * LANES + thread % LANES) * vector
                                + j,
                            ]
                        for j in T.unroll(vector):
                            inner[t, i] = inner[t, i] + v[j] * T.cast(raw[j], FP32)

    return add


def factors(spec: ReadSpec) -> Any:
    """Return the kernel for the factors: a block has a tile of tokens, and its threads walk the width together."""
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, mixes_of(spec)
    dtype, pre_eps = DTYPES[spec.dtype], spec.pre_eps
    back, post_scale, gates, place = writes_back(spec), post_scale_of(spec), gates_of(spec), factors_of(spec)
    vector = vector_of(hidden)
    own = -(-streams // GROUPS)
    threads = GROUPS * LANES
    segments = LANES // SEGMENT
    sums = GROUPS * own
    add, add_up = add_products(spec, vector, own), add_segments(sums, segments, threads)
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre_factors(
        x: tensors.x,
        alpha: tensors.alpha,
        bias: tensors.bias,
        m: tensors.m,
        r: tensors.r,
        grad_h_in: tensors.grad_h_in,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
        factors: tensors.factors,
    ):
        with T.Kernel(T.ceildiv(tokens, TILE), threads=threads) as block:
            thread = T.get_thread_binding()
            partial = T.alloc_shared((sums * segments, SEGMENT + 1), FP32, scope="shared")
            segment_sum = T.alloc_shared((sums * segments,), FP32, scope="shared")
            grad_h_pre = T.alloc_shared((TILE, sums), FP32, scope="shared")
            terms = T.alloc_shared((TILE, mixes), FP32, scope="shared")
            dalpha = T.alloc_shared((TILE, gates), FP32, scope="shared")
            inner = T.alloc_local((TILE, own), FP32)
            v = T.alloc_local((vector,), FP32)
            raw = T.alloc_local((vector,), dtype)
            scalar = T.alloc_local((1,), FP32)
            s = T.alloc_local((1,), FP32)
            dz = T.alloc_local((1,), FP32)
            gate = T.alloc_local((1,), FP32)

            add(x, grad_h_in, tokens, block, thread, inner, v, raw)
            for t in T.unroll(TILE):
                for i in T.unroll(own):
                    partial[(thread // LANES * own + i) * segments + thread % LANES // SEGMENT, thread % SEGMENT] = (
                        inner[t, i]
                    )
                add_up(partial, segment_sum, grad_h_pre, t, scalar, thread)
            T.sync_threads()

            for part in T.serial(T.ceildiv(TILE * mixes, threads)):
                item = part * threads + thread
                if item < TILE * mixes:
                    t = item // mixes
                    o = item % mixes
                    token = T.min(block * TILE + t, tokens - 1)
                    scalar[0] = m[token, o]
                    if o < streams:
                        gate[0] = alpha[0]
                        s[0] = T.float32(1) / (T.float32(1) + T.exp(-(gate[0] * scalar[0] + bias[o])))
                        dz[0] = grad_h_pre[t, o] * s[0] * (T.float32(1) - s[0])
                        if block * TILE + t < tokens:
                            factors[token, place.h_pre + o] = s[0] + T.float32(pre_eps)
                    if back:  # noqa: SIM102 - decided when the kernel is made, the next one when it runs
                        if o >= streams:
                            if o < 2 * streams:
                                gate[0] = alpha[1]
                                s[0] = T.float32(1) / (T.float32(1) + T.exp(-(gate[0] * scalar[0] + bias[o])))
                                dz[0] = (
                                    T.float32(post_scale)
                                    * grad_h_post[token, o - streams]
                                    * s[0]
                                    * (T.float32(1) - s[0])
                                )
                            else:
                                gate[0] = alpha[2]
                                dz[0] = grad_h_res[token, o - 2 * streams]
                    terms[t, o] = dz[0] * scalar[0]
                    if block * TILE + t < tokens:
                        factors[token, o] = gate[0] * dz[0] * r[token]
                        factors[token, place.dz + o] = dz[0]
            T.sync_threads()
            if thread < TILE * gates:
                scalar[0] = T.float32(0)
                for o in T.serial(T.if_then_else(thread % gates < 2, streams, streams * streams)):
                    scalar[0] = scalar[0] + terms[thread // gates, thread % gates * streams + o]
                dalpha[thread // gates, thread % gates] = scalar[0]
                if block * TILE + thread // gates < tokens:
                    factors[block * TILE + thread // gates, place.dalpha + thread % gates] = scalar[0]
            T.sync_threads()
            if thread < T.min(TILE, tokens - block * TILE):
                scalar[0] = T.float32(0)
                for k in T.unroll(gates):
                    scalar[0] = scalar[0] + alpha[k] * dalpha[thread, k]
                s[0] = r[block * TILE + thread]
                factors[block * TILE + thread, place.slope] = -scalar[0] * s[0] * s[0] / T.float32(width)

    return mhc_pre_factors


def grad_x(spec: ReadSpec) -> Any:
    """Return the kernel for dx: a thread has some columns of some tokens, and goes through phi's rows with them."""
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, mixes_of(spec)
    dtype, weighted, place = DTYPES[spec.dtype], spec.gamma, factors_of(spec)
    threads, vector = COLUMN_THREADS, vector_of(hidden)
    staged = mixes + streams + 1  # the factors before dz
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre_grad_x(
        x: tensors.x,
        phi: tensors.phi,
        gamma: tensors.gamma,
        grad_h_in: tensors.grad_h_in,
        factors: tensors.factors,
        grad_x: tensors.grad_x,
    ):
        with T.Kernel(T.ceildiv(tokens, TOKENS), T.ceildiv(width, threads * vector), threads=threads) as (block, part):
            thread = T.get_thread_binding()
            # By factors, then tokens. The four more put few threads that store a token's factors into one bank.
            ready = T.alloc_shared((staged, TOKENS + QUAD), FP32, scope="shared")
            d = T.alloc_local((TOKENS, vector), FP32)
            f = T.alloc_local((QUAD,), FP32)
            row = T.alloc_local((vector,), FP32)
            raw = T.alloc_local((vector,), dtype)
            of_layer = T.alloc_local((vector,), dtype)

            for turn in T.serial(T.ceildiv(TOKENS * staged, threads)):
                item = turn * threads + thread
                if item < TOKENS * staged:
                    # Past the last token, read it again: the result is not stored.
                    ready[item % staged, item // staged] = factors[
                        T.min(block * TOKENS + item // staged, tokens - 1), item % staged
                    ]
            T.sync_threads()

            if (part * threads + thread) * vector < width:
                for t in T.unroll(TOKENS):
                    for j in T.unroll(vector):
                        d[t, j] = T.float32(0)
                for o in T.serial(mixes):
                    for j in T.vectorized(vector):
                        row[j] = phi[o, (part * threads + thread) * vector + j]
                    for quad in T.unroll(TOKENS // QUAD):
                        for k in T.vectorized(QUAD):
                            f[k] = ready[o, quad * QUAD + k]
                        for k in T.unroll(QUAD):
                            for j in T.unroll(vector):
                                d[quad * QUAD + k, j] = d[quad * QUAD + k, j] + f[k] * row[j]
                if weighted:
                    for j in T.vectorized(vector):
                        row[j] = gamma[(part * threads + thread) * vector + j]
                    for t in T.unroll(TOKENS):
                        for j in T.unroll(vector):
                            d[t, j] = d[t, j] * row[j]
                for t in T.unroll(TOKENS):
                    if block * TOKENS + t < tokens:
                        for j in T.vectorized(vector):
                            raw[j] = x[block * TOKENS + t, (part * threads + thread) * vector + j]
                        for j in T.vectorized(vector):
                            of_layer[j] = grad_h_in[block * TOKENS + t, (part * threads + thread) * vector % hidden + j]
                        for j in T.unroll(vector):
                            raw[j] = T.cast(
                                d[t, j]
                                + ready[place.slope, t] * T.cast(raw[j], FP32)
                                + ready[place.h_pre + (part * threads + thread) * vector // hidden, t]
                                * T.cast(of_layer[j], FP32),
                                dtype,
                            )
                        for j in T.vectorized(vector):
                            grad_x[block * TOKENS + t, (part * threads + thread) * vector + j] = raw[j]

    return mhc_pre_grad_x


def sums(spec: ReadSpec) -> Any:
    """Return the kernel for the sums over the tokens of a split.

    The first blocks of a split add up what is no product with x, a number to a thread. Each of the others has some
    columns and a group of mixes.
    """
    width, mixes = spec.width, mixes_of(spec)
    dtype, place, small_sums = DTYPES[spec.dtype], factors_of(spec), mixes_of(spec) + gates_of(spec)
    threads, vector = COLUMN_THREADS, vector_of(spec.hidden)
    groups, own = sums_of(spec)
    small_blocks = -(-small_sums // threads)
    tensors = tensors_of(spec, dtype, T)
    tokens, splits, share, blocks = tensors.tokens, tensors.splits, tensors.share, tensors.blocks

    @T.prim_func
    def mhc_pre_sums(
        x: tensors.x,
        factors: tensors.factors_of_split,
        sums: tensors.sums,
        small: tensors.small,
    ):
        with T.Kernel(blocks * groups + small_blocks, splits, threads=threads) as (block, split):
            thread = T.get_thread_binding()
            ready = T.alloc_shared((STAGE, own), FP32, scope="shared")
            acc = T.alloc_local((own, vector), FP32)
            raw = T.alloc_local((QUAD, vector), dtype)
            v = T.alloc_local((QUAD, vector), FP32)
            f = T.alloc_local((QUAD,), FP32)
            of_split = T.alloc_local((1,), FP32)
            of_stage = T.alloc_local((1,), FP32)
            end = T.min(share, tokens - split * share)

            if block < small_blocks:
                if block * threads + thread < small_sums:
                    of_split[0] = T.float32(0)
                    for stage in T.serial(T.ceildiv(end, STAGE)):
                        of_stage[0] = T.float32(0)
                        for t in T.serial(T.min(STAGE, end - stage * STAGE)):
                            of_stage[0] = (
                                of_stage[0] + factors[split, stage * STAGE + t, place.dz + block * threads + thread]
                            )
                        of_split[0] = of_split[0] + of_stage[0]
                    small[split, block * threads + thread] = of_split[0]
            else:
                of_columns = (block - small_blocks) // groups
                group = (block - small_blocks) % groups
                column = (of_columns * threads + thread) * vector
                for o in T.unroll(own):
                    for j in T.unroll(vector):
                        acc[o, j] = T.float32(0)
                for stage in T.serial(T.ceildiv(end, STAGE)):
                    T.sync_threads()
                    for turn in T.serial(T.ceildiv(STAGE * own, threads)):
                        item = turn * threads + thread
                        if item < STAGE * own:
                            # Past the last token, zero; past the last mix, read it again: the sums are not stored.
                            ready[item // own, item % own] = T.if_then_else(
                                stage * STAGE + item // own < end,
                                factors[
                                    split,
                                    T.min(stage * STAGE + item // own, end - 1),
                                    T.min(group * own + item % own, mixes - 1),
                                ],
                                T.float32(0),
                            )
                    T.sync_threads()
                    if column < width:
                        for quad in T.serial(T.ceildiv(T.min(STAGE, end - stage * STAGE), QUAD)):
                            for t in T.unroll(QUAD):
                                # Past the last token, read it again: it is multiplied by zero.
                                for j in T.vectorized(vector):
                                    raw[t, j] = x[
                                        split * share + T.min(stage * STAGE + quad * QUAD + t, end - 1), column + j
                                    ]
                                for j in T.unroll(vector):
                                    v[t, j] = T.cast(raw[t, j], FP32)
                            for part in T.unroll(own // QUAD):
                                for t in T.unroll(QUAD):
                                    for k in T.vectorized(QUAD):
                                        f[k] = ready[quad * QUAD + t, part * QUAD + k]
                                    for k in T.unroll(QUAD):
                                        for j in T.unroll(vector):
                                            acc[part * QUAD + k, j] = acc[part * QUAD + k, j] + f[k] * v[t, j]
                if column < width:
                    for o in T.unroll(own):
                        if group * own + o < mixes:
                            for j in T.vectorized(vector):
                                sums[split, of_columns, group * own + o, thread * vector + j] = acc[o, j]

    return mhc_pre_sums


def total(spec: ReadSpec) -> Any:
    """Return the kernel for the totals: one thread per column. The first block has the sums over no column, too."""
    width, mixes, weighted, gates = spec.width, mixes_of(spec), spec.gamma, gates_of(spec)
    threads, columns = COLUMN_THREADS, columns_of_block(spec)
    tensors = tensors_of(spec, FP32, T)
    splits, blocks = tensors.splits, tensors.blocks

    @T.prim_func
    def mhc_pre_total(
        phi: tensors.phi,
        gamma: tensors.gamma,
        sums: tensors.sums,
        small: tensors.small,
        grad_phi: tensors.grad_phi,
        grad_alpha: tensors.grad_alpha,
        grad_bias: tensors.grad_bias,
        grad_gamma: tensors.grad_gamma,
    ):
        with T.Kernel(blocks * (columns // threads), threads=threads) as block:
            thread = T.get_thread_binding()
            q = T.alloc_local((1,), FP32)
            scalar = T.alloc_local((1,), FP32)
            column = block * threads + thread

            if column < width:
                scalar[0] = T.float32(0)
                for o in T.serial(mixes):
                    q[0] = T.float32(0)
                    for split in T.serial(splits):
                        q[0] = q[0] + sums[split, column // columns, o, column % columns]
                    if weighted:
                        scalar[0] = scalar[0] + phi[o, column] * q[0]
                        q[0] = q[0] * gamma[column]
                    grad_phi[o, column] = q[0]
                if weighted:
                    grad_gamma[column] = scalar[0]

            if block == 0:
                for part in T.serial(T.ceildiv(mixes + gates, threads)):
                    if part * threads + thread < mixes + gates:
                        scalar[0] = T.float32(0)
                        for split in T.serial(splits):
                            scalar[0] = scalar[0] + small[split, part * threads + thread]
                        if part * threads + thread < mixes:
                            grad_bias[part * threads + thread] = scalar[0]
                        else:
                            grad_alpha[part * threads + thread - mixes] = scalar[0]

    return mhc_pre_total
