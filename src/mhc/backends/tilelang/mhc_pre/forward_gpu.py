"""The GPU kernel of ``mhc_pre``: FP32 FMA in registers, for CUDA and for HIP."""

# No postponed annotations here: TileLang reads those of a kernel as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.gpu import DTYPES, FP32, SEGMENT, add_segments, vector_of
from mhc.backends.tilelang.mhc_pre.tensors import tensors_of
from mhc.ops.mhc_pre import MhcPreSpec

LANES = 64  # threads that share the width of a token; each group of them has its own rows of phi
GROUPS = 4
ACCUMULATORS = 64  # registers of one thread for partial products; more would spill
MAX_TILE = 8  # tokens of one block: each row of phi is read once for all of them


def tokens_per_block(rows: int) -> int:
    """Return the largest power of two of tokens whose partial products fit the registers of a thread."""
    tile = MAX_TILE
    while tile > 1 and tile * rows > ACCUMULATORS:
        tile //= 2
    return tile


def add_width(spec: MhcPreSpec, vector: int, rows: int, tile: int) -> Any:
    """Return a macro: a thread's part of the products with its rows of phi, and of the squares, of a tile of tokens."""
    width, mixes, weighted = spec.width, spec.mixes, spec.gamma

    @T.macro
    def add_products(x, phi, gamma, tokens, block, thread, acc, squares, v, raw, weight):
        for m in T.unroll(tile):
            squares[m] = T.float32(0)
            for r in T.unroll(rows):
                acc[m, r] = T.float32(0)

        for step in T.serial(T.ceildiv(width, LANES * vector)):
            if (step * LANES + thread % LANES) * vector < width:
                for m in T.unroll(tile):
                    # Past the last token, read it again: the result is not stored.
                    for j in T.vectorized(vector):
                        raw[j] = x[T.min(block * tile + m, tokens - 1), (step * LANES + thread % LANES) * vector + j]
                    for j in T.unroll(vector):
                        v[m, j] = T.cast(raw[j], FP32)
                        squares[m] = squares[m] + v[m, j] * v[m, j]
                if weighted:
                    for j in T.vectorized(vector):
                        weight[j] = gamma[(step * LANES + thread % LANES) * vector + j]
                    for m in T.unroll(tile):
                        for j in T.unroll(vector):
                            v[m, j] = v[m, j] * weight[j]
                for r in T.unroll(rows):
                    for j in T.vectorized(vector):
                        weight[j] = phi[
                            T.min(thread // LANES * rows + r, mixes - 1),
                            (step * LANES + thread % LANES) * vector + j,
                        ]
                    for m in T.unroll(tile):
                        for j in T.unroll(vector):
                            acc[m, r] = acc[m, r] + v[m, j] * weight[j]

    return add_products


def forward(spec: MhcPreSpec) -> Any:
    """Return ``mhc_pre`` as a prim_func over x [tokens, n·hidden] and gamma [n·hidden] ([1], unread, if None).

    One block takes a tile of tokens, so a row of phi is read once per tile. Its threads form groups: a group has its
    share of phi's rows, its lanes walk the width together. Sums are added in a fixed order, without atomics, and no
    sum crosses tokens.
    """
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    dtype = DTYPES[spec.dtype]
    norm_eps, pre_eps = spec.norm_eps, spec.pre_eps
    vector = vector_of(hidden)
    rows = -(-mixes // GROUPS)
    tile = tokens_per_block(rows)
    threads = GROUPS * LANES
    segments = LANES // SEGMENT
    sums = mixes + 1  # phi's rows, then the sum of squares
    add_products, add_up = add_width(spec, vector, rows, tile), add_segments(sums, segments, threads)
    tensors = tensors_of(spec, dtype, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre(
        x: tensors.x,
        phi: tensors.phi,
        alpha: tensors.alpha,
        bias: tensors.bias,
        gamma: tensors.gamma,
        h_in: tensors.h_in,
        h_post: tensors.h_post,
        h_res: tensors.h_res,
    ):
        with T.Kernel(T.ceildiv(tokens, tile), threads=threads) as block:
            thread = T.get_thread_binding()
            # One column more than is used, so that threads that read along different rows meet different banks.
            partial = T.alloc_shared((sums * segments, SEGMENT + 1), FP32, scope="shared")
            segment_sum = T.alloc_shared((sums * segments,), FP32, scope="shared")
            mixed = T.alloc_shared((tile, sums), FP32, scope="shared")
            h_pre = T.alloc_shared((tile, streams), FP32, scope="shared")
            acc = T.alloc_local((tile, rows), FP32)
            squares = T.alloc_local((tile,), FP32)
            v = T.alloc_local((tile, vector), FP32)
            raw = T.alloc_local((vector,), dtype)
            weight = T.alloc_local((vector,), FP32)
            scalar = T.alloc_local((1,), FP32)

            add_products(x, phi, gamma, tokens, block, thread, acc, squares, v, raw, weight)

            # Add up the lanes: first within segments of a row, then the segments.
            for m in T.unroll(tile):
                for r in T.unroll(rows):
                    if thread // LANES * rows + r < mixes:
                        partial[
                            (thread // LANES * rows + r) * segments + thread % LANES // SEGMENT, thread % SEGMENT
                        ] = acc[m, r]
                if thread < LANES:
                    partial[mixes * segments + thread // SEGMENT, thread % SEGMENT] = squares[m]
                add_up(partial, segment_sum, mixed, m, scalar, thread)
            T.sync_threads()

            for part in T.serial(T.ceildiv(tile * mixes, threads)):
                item = part * threads + thread
                if item < tile * mixes:
                    m = item // mixes
                    o = item % mixes
                    scalar[0] = mixed[m, o] * T.rsqrt(mixed[m, mixes] / T.float32(width) + T.float32(norm_eps))
                    if o < streams:
                        h_pre[m, o] = T.float32(1) / (T.float32(1) + T.exp(-(alpha[0] * scalar[0] + bias[o]))) + (
                            T.float32(pre_eps)
                        )
                    elif block * tile + m < tokens:
                        if o < 2 * streams:
                            h_post[block * tile + m, o - streams] = T.float32(2) / (
                                T.float32(1) + T.exp(-(alpha[1] * scalar[0] + bias[o]))
                            )
                        else:
                            h_res[block * tile + m, o - 2 * streams] = alpha[2] * scalar[0] + bias[o]
            T.sync_threads()

            for m in T.serial(tile):
                if block * tile + m < tokens:
                    for step in T.serial(T.ceildiv(hidden, threads * vector)):
                        if (step * threads + thread) * vector < hidden:
                            for j in T.unroll(vector):
                                v[0, j] = T.float32(0)
                            for i in T.unroll(streams):
                                for j in T.vectorized(vector):
                                    raw[j] = x[block * tile + m, i * hidden + (step * threads + thread) * vector + j]
                                for j in T.unroll(vector):
                                    v[0, j] = v[0, j] + h_pre[m, i] * T.cast(raw[j], FP32)
                            for j in T.unroll(vector):
                                raw[j] = T.cast(v[0, j], dtype)
                            for j in T.vectorized(vector):
                                h_in[block * tile + m, (step * threads + thread) * vector + j] = raw[j]

    return mhc_pre
