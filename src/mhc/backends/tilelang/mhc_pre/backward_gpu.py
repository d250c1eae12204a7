"""The GPU kernels of ``mhc_pre``'s gradients; ``factors`` says what each does."""

# No postponed annotations here: TileLang reads those of a kernel as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.gpu import DTYPES, FP32, SEGMENT, add_segments, vector_of
from mhc.backends.tilelang.mhc_pre.factors import STAGE
from mhc.backends.tilelang.mhc_pre.forward_gpu import GROUPS, LANES, add_width, tokens_per_block
from mhc.backends.tilelang.mhc_pre.tensors import tensors_of
from mhc.ops.mhc_pre import MhcPreSpec

THREADS = 128  # of a block that owns columns
REGISTERS = 128  # of one thread, for its part of phi and of the sums


def columns_per_thread(spec: MhcPreSpec) -> int:
    """Return the columns of one access, or fewer if their part of phi and of the sums would not fit the registers."""
    vector = vector_of(spec.hidden)
    while vector > 1 and 2 * spec.mixes * vector > REGISTERS:
        vector //= 2
    return vector


def factors(spec: MhcPreSpec) -> Any:
    """Return the kernel for the factors: a block has a tile of tokens, and its threads walk the width together."""
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    dtype, norm_eps, pre_eps = DTYPES[spec.dtype], spec.norm_eps, spec.pre_eps
    vector = vector_of(hidden)
    rows, own = -(-mixes // GROUPS), -(-streams // GROUPS)
    tile = tokens_per_block(rows + own)
    threads = GROUPS * LANES
    segments = LANES // SEGMENT
    sums = mixes + 1 + streams  # phi's rows, the sum of squares, then the gradients of h_pre
    add_products, add_up = add_width(spec, vector, rows, tile), add_segments(sums, segments, threads)
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre_factors(
        x: tensors.x,
        phi: tensors.phi,
        alpha: tensors.alpha,
        bias: tensors.bias,
        gamma: tensors.gamma,
        grad_h_in: tensors.grad_h_in,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
        factors: tensors.factors,
    ):
        with T.Kernel(T.ceildiv(tokens, tile), threads=threads) as block:
            thread = T.get_thread_binding()
            partial = T.alloc_shared((sums * segments, SEGMENT + 1), FP32, scope="shared")
            segment_sum = T.alloc_shared((sums * segments,), FP32, scope="shared")
            mixed = T.alloc_shared((tile, sums), FP32, scope="shared")
            terms = T.alloc_shared((tile, mixes), FP32, scope="shared")
            acc = T.alloc_local((tile, rows), FP32)
            inner = T.alloc_local((tile, own), FP32)
            squares = T.alloc_local((tile,), FP32)
            v = T.alloc_local((tile, vector), FP32)
            raw = T.alloc_local((vector,), dtype)
            weight = T.alloc_local((vector,), FP32)
            scalar = T.alloc_local((1,), FP32)
            s = T.alloc_local((1,), FP32)
            dz = T.alloc_local((1,), FP32)
            gate = T.alloc_local((1,), FP32)

            add_products(x, phi, gamma, tokens, block, thread, acc, squares, v, raw, weight)
            for m in T.unroll(tile):
                for i in T.unroll(own):
                    inner[m, i] = T.float32(0)
            for step in T.serial(T.ceildiv(hidden, LANES * vector)):
                if (step * LANES + thread % LANES) * vector < hidden:
                    for m in T.unroll(tile):
                        for j in T.vectorized(vector):
                            raw[j] = grad_h_in[
                                T.min(block * tile + m, tokens - 1), (step * LANES + thread % LANES) * vector + j
                            ]
                        for j in T.unroll(vector):
                            v[m, j] = T.cast(raw[j], FP32)
                        for i in T.unroll(own):
                            for j in T.vectorized(vector):
                                raw[j] = x[
                                    T.min(block * tile + m, tokens - 1),
                                    T.min(thread // LANES * own + i, streams - 1) * hidden
                                    + (step * LANES + thread % LANES) * vector
                                    + j,
                                ]
                            for j in T.unroll(vector):
                                inner[m, i] = inner[m, i] + v[m, j] * T.cast(raw[j], FP32)

            for m in T.unroll(tile):
                for o in T.unroll(rows):
                    if thread // LANES * rows + o < mixes:
                        partial[
                            (thread // LANES * rows + o) * segments + thread % LANES // SEGMENT, thread % SEGMENT
                        ] = acc[m, o]
                if thread < LANES:
                    partial[mixes * segments + thread // SEGMENT, thread % SEGMENT] = squares[m]
                for i in T.unroll(own):
                    if thread // LANES * own + i < streams:
                        partial[
                            (mixes + 1 + thread // LANES * own + i) * segments + thread % LANES // SEGMENT,
                            thread % SEGMENT,
                        ] = inner[m, i]
                add_up(partial, segment_sum, mixed, m, scalar, thread)
            T.sync_threads()

            for part in T.serial(T.ceildiv(tile * mixes, threads)):
                item = part * threads + thread
                if item < tile * mixes:
                    m = item // mixes
                    o = item % mixes
                    token = T.min(block * tile + m, tokens - 1)
                    r = T.float32(1) / T.sqrt(mixed[m, mixes] / T.float32(width) + T.float32(norm_eps))
                    scalar[0] = mixed[m, o] * r
                    if o < streams:
                        gate[0] = alpha[0]
                        s[0] = T.float32(1) / (T.float32(1) + T.exp(-(gate[0] * scalar[0] + bias[o])))
                        dz[0] = mixed[m, mixes + 1 + o] * s[0] * (T.float32(1) - s[0])
                        if block * tile + m < tokens:
                            factors[token, mixes + o] = s[0] + T.float32(pre_eps)
                    elif o < 2 * streams:
                        gate[0] = alpha[1]
                        s[0] = T.float32(1) / (T.float32(1) + T.exp(-(gate[0] * scalar[0] + bias[o])))
                        dz[0] = grad_h_post[token, o - streams] * T.float32(2) * s[0] * (T.float32(1) - s[0])
                    else:
                        gate[0] = alpha[2]
                        dz[0] = grad_h_res[token, o - 2 * streams]
                    terms[m, o] = gate[0] * dz[0] * scalar[0]
                    if block * tile + m < tokens:
                        factors[token, o] = gate[0] * dz[0] * r
                        factors[token, mixes + streams + 1 + o] = dz[0]
                        factors[token, 2 * mixes + streams + 1 + o] = dz[0] * scalar[0]
            T.sync_threads()
            if thread < T.min(tile, tokens - block * tile):
                scalar[0] = T.float32(0)
                for o in T.serial(mixes):
                    scalar[0] = scalar[0] + terms[thread, o]
                factors[block * tile + thread, mixes + streams] = -scalar[0] / (
                    (mixed[thread, mixes] / T.float32(width) + T.float32(norm_eps)) * T.float32(width)
                )

    return mhc_pre_factors


def columns(spec: MhcPreSpec) -> Any:
    """Return the kernel by columns: a thread keeps its part of phi and of the sums in registers. A block is a split."""
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    dtype, weighted = DTYPES[spec.dtype], spec.gamma
    vector = columns_per_thread(spec)
    staged = mixes + streams + 1
    parts = -(-2 * mixes // THREADS)
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens
    splits = tensors.splits

    @T.prim_func
    def mhc_pre_columns(
        x: tensors.x,
        phi: tensors.phi,
        gamma: tensors.gamma,
        grad_h_in: tensors.grad_h_in,
        factors: tensors.factors,
        grad_x: tensors.grad_x,
        sums: tensors.sums,
        small: tensors.small,
    ):
        with T.Kernel(T.ceildiv(width, THREADS * vector), splits, threads=THREADS) as (block, split):
            thread = T.get_thread_binding()
            share = T.ceildiv(tokens, splits)
            ready = T.alloc_shared((STAGE, staged), FP32, scope="shared")
            rows = T.alloc_local((mixes, vector), FP32)
            acc = T.alloc_local((mixes, vector), FP32)
            v = T.alloc_local((vector,), FP32)
            g = T.alloc_local((vector,), FP32)
            d = T.alloc_local((vector,), FP32)
            weight = T.alloc_local((vector,), FP32)
            raw = T.alloc_local((vector,), dtype)
            of_split = T.alloc_local((parts,), FP32)
            of_stage = T.alloc_local((1,), FP32)

            for p in T.unroll(parts):
                of_split[p] = T.float32(0)
            for j in T.unroll(vector):
                weight[j] = T.float32(1)
            for o in T.unroll(mixes):
                for j in T.unroll(vector):
                    acc[o, j] = T.float32(0)
            if (block * THREADS + thread) * vector < width:
                if weighted:
                    for j in T.vectorized(vector):
                        weight[j] = gamma[(block * THREADS + thread) * vector + j]
                for o in T.unroll(mixes):
                    for j in T.vectorized(vector):
                        rows[o, j] = phi[o, (block * THREADS + thread) * vector + j]

            for stage in T.serial(T.ceildiv(share, STAGE)):
                T.sync_threads()
                for part in T.serial(T.ceildiv(STAGE * staged, THREADS)):
                    if part * THREADS + thread < STAGE * staged:
                        ready[(part * THREADS + thread) // staged, (part * THREADS + thread) % staged] = factors[
                            T.min(split * share + stage * STAGE + (part * THREADS + thread) // staged, tokens - 1),
                            (part * THREADS + thread) % staged,
                        ]
                T.sync_threads()
                for t in T.serial(T.max(0, T.min(STAGE, T.min(share, tokens - split * share) - stage * STAGE))):
                    if (block * THREADS + thread) * vector < width:
                        token = split * share + stage * STAGE + t
                        for j in T.vectorized(vector):
                            raw[j] = x[token, (block * THREADS + thread) * vector + j]
                        for j in T.unroll(vector):
                            v[j] = T.cast(raw[j], FP32)
                            d[j] = T.float32(0)
                        for j in T.vectorized(vector):
                            raw[j] = grad_h_in[token, (block * THREADS + thread) * vector % hidden + j]
                        for j in T.unroll(vector):
                            g[j] = T.cast(raw[j], FP32)
                        for o in T.unroll(mixes):
                            for j in T.unroll(vector):
                                d[j] = d[j] + ready[t, o] * rows[o, j]
                                acc[o, j] = acc[o, j] + ready[t, o] * v[j]
                        for j in T.unroll(vector):
                            raw[j] = T.cast(
                                d[j] * weight[j]
                                + ready[t, mixes + streams] * v[j]
                                + ready[t, mixes + (block * THREADS + thread) * vector // hidden] * g[j],
                                dtype,
                            )
                        for j in T.vectorized(vector):
                            grad_x[token, (block * THREADS + thread) * vector + j] = raw[j]
                if block == 0:
                    for p in T.unroll(parts):
                        if p * THREADS + thread < 2 * mixes:
                            of_stage[0] = T.float32(0)
                            for t in T.serial(
                                T.max(0, T.min(STAGE, T.min(share, tokens - split * share) - stage * STAGE))
                            ):
                                of_stage[0] = (
                                    of_stage[0]
                                    + factors[split * share + stage * STAGE + t, staged + p * THREADS + thread]
                                )
                            of_split[p] = of_split[p] + of_stage[0]

            if (block * THREADS + thread) * vector < width:
                for o in T.unroll(mixes):
                    for j in T.unroll(vector):
                        sums[split, o * width + (block * THREADS + thread) * vector + j] = acc[o, j]
            if block == 0:
                for p in T.unroll(parts):
                    if p * THREADS + thread < 2 * mixes:
                        small[split, p * THREADS + thread] = of_split[p]

    return mhc_pre_columns


def total(spec: MhcPreSpec) -> Any:
    """Return the kernel for the totals: one thread per column. The first block has the sums over no column, too."""
    streams, width, mixes, weighted = spec.streams, spec.width, spec.mixes, spec.gamma
    tensors = tensors_of(spec, FP32, T)
    splits = tensors.splits

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
        with T.Kernel(T.ceildiv(width, THREADS), threads=THREADS) as block:
            thread = T.get_thread_binding()
            gates = T.alloc_shared((mixes,), FP32, scope="shared")
            q = T.alloc_local((1,), FP32)
            scalar = T.alloc_local((1,), FP32)

            if block * THREADS + thread < width:
                scalar[0] = T.float32(0)
                for o in T.serial(mixes):
                    q[0] = T.float32(0)
                    for split in T.serial(splits):
                        q[0] = q[0] + sums[split, o * width + block * THREADS + thread]
                    if weighted:
                        scalar[0] = scalar[0] + phi[o, block * THREADS + thread] * q[0]
                        q[0] = q[0] * gamma[block * THREADS + thread]
                    grad_phi[o, block * THREADS + thread] = q[0]
                if weighted:
                    grad_gamma[block * THREADS + thread] = scalar[0]

            if thread < mixes:
                scalar[0] = T.float32(0)
                q[0] = T.float32(0)
                for split in T.serial(splits):
                    scalar[0] = scalar[0] + small[split, thread]
                    q[0] = q[0] + small[split, mixes + thread]
                gates[thread] = q[0]
                if block == 0:
                    grad_bias[thread] = scalar[0]
            T.sync_threads()
            if block * THREADS + thread < 3:
                scalar[0] = T.float32(0)
                for o in T.serial(T.if_then_else(thread < 2, streams, streams * streams)):
                    scalar[0] = scalar[0] + gates[T.min(thread * streams + o, mixes - 1)]
                grad_alpha[thread] = scalar[0]

    return mhc_pre_total
