"""The GPU kernel of ``mhc_pre`` and ``mhc_head``: FP32 FMA in registers, for CUDA and for HIP."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T

from mhc.backends.tilelang.gpu import DTYPES, FP32, SEGMENT, add_segments, vector_of
from mhc.backends.tilelang.mhc_pre.factors import mixes_of, post_scale_of, writes_back
from mhc.backends.tilelang.mhc_pre.tensors import tensors_of
from mhc.ops.read import ReadSpec

LANES = 64  # threads that share the width of a token; each group of them has its own rows of phi
GROUPS = 4
TILE = 8  # tokens of one block: each row of phi is read once for all of them
MAX_ROWS = 8  # of phi that a thread has partial products of at a time, TILE of each; more would spill


def rows_of(spec: ReadSpec) -> tuple[int, int]:
    """Return the passes over x that a block makes, and the rows of phi that a thread has in each."""
    mixes = mixes_of(spec)
    passes = -(-mixes // (GROUPS * MAX_ROWS))
    return passes, -(-mixes // (GROUPS * passes))


def add_width(spec: ReadSpec, vector: int, rows: int) -> Any:
    """Return a macro: a thread's part of the products with its rows of phi, and of the squares, of a tile of tokens."""
    width, mixes, weighted = spec.width, mixes_of(spec), spec.gamma

    @T.macro
    def add_products(x, phi, gamma, tokens, block, thread, turn, acc, squares, v, raw, weight):
        for t in T.unroll(TILE):
            squares[t] = T.float32(0)
            for row in T.unroll(rows):
                acc[t, row] = T.float32(0)

        for step in T.serial(T.ceildiv(width, LANES * vector)):
            if (step * LANES + thread % LANES) * vector < width:
                for t in T.unroll(TILE):
                    # Past the last token, read it again: the result is not stored.
                    for j in T.vectorized(vector):
                        raw[j] = x[T.min(block * TILE + t, tokens - 1), (step * LANES + thread % LANES) * vector + j]
                    for j in T.unroll(vector):
                        v[t, j] = T.cast(raw[j], FP32)
                        squares[t] = squares[t] + v[t, j] * v[t, j]
                if weighted:
                    for j in T.vectorized(vector):
                        weight[j] = gamma[(step * LANES + thread % LANES) * vector + j]
                    for t in T.unroll(TILE):
                        for j in T.unroll(vector):
                            v[t, j] = v[t, j] * weight[j]
                for row in T.unroll(rows):
                    # Past the last row, read it again: the result is not looked at.
                    for j in T.vectorized(vector):
                        weight[j] = phi[
                            T.min((turn * GROUPS + thread // LANES) * rows + row, mixes - 1),
                            (step * LANES + thread % LANES) * vector + j,
                        ]
                    for t in T.unroll(TILE):
                        for j in T.unroll(vector):
                            acc[t, row] = acc[t, row] + v[t, j] * weight[j]

    return add_products


def forward(spec: ReadSpec) -> Any:
    """Return ``mhc_pre`` as a prim_func over x [tokens, n·hidden] and gamma [n·hidden] ([1], unread, if None).

    One block takes a tile of tokens, so a row of phi is read once per tile. Its threads form groups: a group has its
    share of phi's rows, its lanes walk the width together, once for every ``GROUPS * MAX_ROWS`` rows. Sums are added in
    a fixed order, without atomics, and no sum crosses tokens.
    """
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, mixes_of(spec)
    dtype, norm_eps, pre_eps = DTYPES[spec.dtype], spec.norm_eps, spec.pre_eps
    back, post_scale = writes_back(spec), post_scale_of(spec)
    vector = vector_of(hidden)
    passes, rows = rows_of(spec)
    threads = GROUPS * LANES
    segments = LANES // SEGMENT
    of_pass = GROUPS * rows
    sums = of_pass + 1  # rows of phi, then the sum of squares
    add_products, add_up = add_width(spec, vector, rows), add_segments(sums, segments, threads)
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
        m: tensors.m,
        r: tensors.r,
    ):
        with T.Kernel(T.ceildiv(tokens, TILE), threads=threads) as block:
            thread = T.get_thread_binding()
            # One column more than is used, so that threads that read along different rows meet different banks.
            partial = T.alloc_shared((sums * segments, SEGMENT + 1), FP32, scope="shared")
            segment_sum = T.alloc_shared((sums * segments,), FP32, scope="shared")
            total = T.alloc_shared((passes * TILE, sums), FP32, scope="shared")
            scale = T.alloc_shared((TILE,), FP32, scope="shared")
            h_pre = T.alloc_shared((TILE, streams), FP32, scope="shared")
            acc = T.alloc_local((TILE, rows), FP32)
            squares = T.alloc_local((TILE,), FP32)
            v = T.alloc_local((TILE, vector), FP32)
            raw = T.alloc_local((vector,), dtype)
            weight = T.alloc_local((vector,), FP32)
            scalar = T.alloc_local((1,), FP32)

            for turn in T.serial(passes):
                add_products(x, phi, gamma, tokens, block, thread, turn, acc, squares, v, raw, weight)

                # Add up the lanes: first within segments of a row, then the segments.
                for t in T.unroll(TILE):
                    for row in T.unroll(rows):
                        partial[
                            (thread // LANES * rows + row) * segments + thread % LANES // SEGMENT, thread % SEGMENT
                        ] = acc[t, row]
                    if thread < LANES:
                        partial[of_pass * segments + thread // SEGMENT, thread % SEGMENT] = squares[t]
                    add_up(partial, segment_sum, total, turn * TILE + t, scalar, thread)
            T.sync_threads()

            if thread < TILE:
                # Root and quotient rounded to nearest: rsqrt is two units off, and the error would scale all of m.
                scale[thread] = T.float32(1) / T.sqrt(total[thread, of_pass] / T.float32(width) + T.float32(norm_eps))
                if block * TILE + thread < tokens:
                    r[block * TILE + thread] = scale[thread]
            T.sync_threads()

            for part in T.serial(T.ceildiv(TILE * mixes, threads)):
                item = part * threads + thread
                if item < TILE * mixes:
                    t = item // mixes
                    o = item % mixes
                    scalar[0] = total[o // of_pass * TILE + t, o % of_pass] * scale[t]
                    if block * TILE + t < tokens:
                        m[block * TILE + t, o] = scalar[0]
                    if o < streams:
                        h_pre[t, o] = T.float32(1) / (T.float32(1) + T.exp(-(alpha[0] * scalar[0] + bias[o]))) + (
                            T.float32(pre_eps)
                        )
                    if back:  # noqa: SIM102 - decided when the kernel is made, the next one when it runs
                        if o >= streams and block * TILE + t < tokens:
                            if o < 2 * streams:
                                h_post[block * TILE + t, o - streams] = T.float32(post_scale) / (
                                    T.float32(1) + T.exp(-(alpha[1] * scalar[0] + bias[o]))
                                )
                            else:
                                h_res[block * TILE + t, o - 2 * streams] = alpha[2] * scalar[0] + bias[o]
            T.sync_threads()

            for t in T.serial(TILE):
                if block * TILE + t < tokens:
                    for step in T.serial(T.ceildiv(hidden, threads * vector)):
                        if (step * threads + thread) * vector < hidden:
                            for j in T.unroll(vector):
                                v[0, j] = T.float32(0)
                            for i in T.unroll(streams):
                                for j in T.vectorized(vector):
                                    raw[j] = x[block * TILE + t, i * hidden + (step * threads + thread) * vector + j]
                                for j in T.unroll(vector):
                                    v[0, j] = v[0, j] + h_pre[t, i] * T.cast(raw[j], FP32)
                            for j in T.unroll(vector):
                                raw[j] = T.cast(v[0, j], dtype)
                            for j in T.vectorized(vector):
                                h_in[block * TILE + t, (step * threads + thread) * vector + j] = raw[j]

    return mhc_pre
