"""The script of ``mhc_pre`` and ``mhc_head`` for LLVM's CPU targets.

The projection runs over the flattened streams in chunks. All groups of a block of tokens meet a chunk before the next
one. A group's chunk is widened to fp32 (and weighted with gamma) once, then meets phi a few rows at a time,
``tokens x rows`` vector accumulators in registers. Each chunk has its own sums, which are added up after it: that keeps
the rounding errors of long rows small. The lanes are left to be summed.
"""

# No postponed annotations here: TVM reads those of a script as its parameters.

from dataclasses import dataclass
from typing import Any

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.mhc_pre.tensors import Spec, operator, post_scale, tensors_of, writes_back
from mhc.backends.tvm.vectors import STACK_BYTES, Row, fetch, name_of, narrow, registers, wide

# Bytes of one fp32 row of a chunk. A block's rows and the rows of phi that they meet (about eight in all) then stay
# in a first-level cache of 32 KiB.
_CHUNK_BYTES = 2048

# Tokens that meet a chunk of phi before the next chunk: what they share of phi comes from the second-level cache then.
_BLOCK = 16


@dataclass(frozen=True)
class Tile:
    """The blocking of the loops: ``tokens x rows`` accumulators of ``lanes`` floats, for ``groups`` in turn."""

    tokens: int
    groups: int
    rows: int
    lanes: int


def tile(spec: Spec, target: Target) -> Tile:
    """Return the block with the most multiplications per load among those that the target's vector registers hold.

    ``rows`` divides the rows of phi; beside the accumulators the registers hold the operands of one side and one more.
    """
    lanes, held = registers(target)
    _, tokens, rows = max(
        (tokens * rows / (tokens + rows), tokens, rows)
        for rows in range(1, held)
        for tokens in range(1, 7)
        if spec.mixes % rows == 0
        and tokens * rows + min(tokens, rows) < held
        and tokens * rows * lanes * 4 <= STACK_BYTES
    )
    return Tile(tokens, max(1, _BLOCK // tokens), rows, Row.of(spec.width, lanes).lanes)


def projection(spec: Spec, blocking: Tile) -> Any:
    """Return a macro ``project(x, phi, gamma, tokens, first, sums, squares)``.

    It writes ``sums[t, o, lane]`` and ``squares[t, lane]``, whose sums over the lanes are (v · gamma) @ phiᵀ and v²,
    for the block of tokens that begins with ``first``. Without gamma it does not read its third argument.
    """
    f32 = "float32"
    mixes = spec.mixes
    height, groups, rows, lanes = blocking.tokens, blocking.groups, blocking.rows, blocking.lanes
    block = height * groups
    row = Row(spec.width, lanes)
    chunks = -(-row.vectors * lanes * 4 // _CHUNK_BYTES)
    chunk = -(-row.vectors // chunks)

    @T.macro
    def project(x, phi, gamma, tokens, first, sums, squares):
        v = T.alloc_buffer((height, chunk * lanes), f32)
        acc = T.alloc_buffer((height, rows, lanes), f32)
        acc_square = T.alloc_buffer((height, lanes), f32)

        for t in range(block):
            for j in T.vectorized(lanes):
                squares[t, j] = T.float32(0)
        for t, o in T.grid(block, mixes):
            for j in T.vectorized(lanes):
                sums[t, o, j] = T.float32(0)

        for c in range(chunks):
            for g in range(T.min(T.int64(groups), T.truncdiv(tokens - first + (height - 1), T.int64(height)))):
                # Each sum of squares waits for its last addition: those of all tokens go beside each other.
                for t in T.unroll(height):
                    for j in T.vectorized(lanes):
                        acc_square[t, j] = T.float32(0)
                for k in range(T.min(chunk, row.vectors - c * chunk)):
                    for t in T.unroll(height):
                        for j in T.vectorized(lanes):
                            # A last group that is not full repeats the last token.
                            v[t, k * lanes + j] = wide(
                                x[T.min(first + g * height + t, tokens - 1), row.start(c * chunk + k) + j]
                            )
                        # The pieces of a row are too short for the CPU to see what comes next.
                        T.evaluate(
                            fetch(
                                x[
                                    T.min(first + g * height + t, tokens - 1),
                                    row.start(T.min((c + 1) * chunk + k, row.vectors - 1)),
                                ],
                                cache=1,
                            )
                        )
                        if row.ragged:
                            for j in T.vectorized(lanes):
                                v[t, k * lanes + j] = row.once(c * chunk + k, j, v[t, k * lanes + j])
                        for j in T.vectorized(lanes):
                            acc_square[t, j] = acc_square[t, j] + v[t, k * lanes + j] * v[t, k * lanes + j]
                        if spec.gamma:
                            for j in T.vectorized(lanes):
                                v[t, k * lanes + j] = v[t, k * lanes + j] * gamma[row.start(c * chunk + k) + j]
                for t in T.unroll(height):
                    for j in T.vectorized(lanes):
                        squares[g * height + t, j] = squares[g * height + t, j] + acc_square[t, j]
                for o in range(mixes // rows):
                    for t in T.unroll(height):
                        for p in T.unroll(rows):
                            for j in T.vectorized(lanes):
                                acc[t, p, j] = T.float32(0)
                    for k in range(T.min(chunk, row.vectors - c * chunk)):
                        for t in T.unroll(height):
                            for p in T.unroll(rows):
                                for j in T.vectorized(lanes):
                                    acc[t, p, j] = (
                                        acc[t, p, j]
                                        + v[t, k * lanes + j] * phi[o * rows + p, row.start(c * chunk + k) + j]
                                    )
                    for t in T.unroll(height):
                        for p in T.unroll(rows):
                            for j in T.vectorized(lanes):
                                sums[g * height + t, o * rows + p, j] = (
                                    sums[g * height + t, o * rows + p, j] + acc[t, p, j]
                                )

    return project


def forward(spec: Spec, target: Target) -> tvm.tirx.PrimFunc:
    """Project a block of tokens, then read it a second time, from the cache, for ``h_in``.

    The parameters of what the operator does not have are not read.
    """
    f32, dtype, name = "float32", name_of(spec.dtype), operator(spec)
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    coefficients, scale = writes_back(spec), post_scale(spec)
    blocking = tile(spec, target)
    height, rows, lanes = blocking.tokens * blocking.groups, blocking.rows, blocking.lanes
    project = projection(spec, blocking)
    row = Row.of(hidden, lanes)

    tensors = tensors_of(spec, dtype)
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
        T.func_attr({"global_symbol": name, "tirx.noalias": True})
        for block in T.parallel(T.truncdiv(tokens + (height - 1), T.int64(height))):
            sums = T.alloc_buffer((height, mixes, lanes), f32)
            squares = T.alloc_buffer((height, lanes), f32)
            mix = T.alloc_buffer((mixes,), f32)
            h_pre = T.alloc_buffer((streams,), f32)
            read = T.alloc_buffer((row.lanes,), f32)
            norm = T.alloc_buffer((1,), f32)
            # The last few additions have the largest rounding errors, and the gradient of alpha adds up those of m.
            lane_sum = T.alloc_buffer((rows,), "float64")
            first: T.let = block * height

            project(x, phi, gamma, tokens, first, sums, squares)

            for t in range(T.min(T.int64(height), tokens - first)):
                norm[0] = T.float32(0)
                for j in T.unroll(lanes):
                    norm[0] = norm[0] + squares[t, j]
                norm[0] = T.rsqrt(norm[0] / T.float32(width) + T.float32(spec.norm_eps))
                r[first + t] = norm[0]
                for o in range(mixes // rows):
                    # These sums wait for each addition: several of them go beside each other.
                    for p in T.unroll(rows):
                        lane_sum[p] = T.float64(0)
                    for j in T.unroll(lanes):
                        for p in T.unroll(rows):
                            lane_sum[p] = lane_sum[p] + T.Cast("float64", sums[t, o * rows + p, j])
                    for p in T.unroll(rows):
                        mix[o * rows + p] = T.Cast(f32, lane_sum[p]) * norm[0]
                        m[first + t, o * rows + p] = mix[o * rows + p]
                for i in range(streams):
                    h_pre[i] = T.sigmoid(alpha[0] * mix[i] + bias[i]) + T.float32(spec.pre_eps)
                if coefficients:
                    for i in range(streams):
                        h_post[first + t, i] = T.float32(scale) * T.sigmoid(
                            alpha[1] * mix[streams + i] + bias[streams + i]
                        )
                    for i in range(streams * streams):
                        h_res[first + t, i] = alpha[2] * mix[2 * streams + i] + bias[2 * streams + i]
                for d in range(row.vectors):
                    for j in T.vectorized(row.lanes):
                        read[j] = T.float32(0)
                    for i in T.unroll(streams):
                        for j in T.vectorized(row.lanes):
                            read[j] = read[j] + h_pre[i] * wide(x[first + t, i * hidden + row.start(d) + j])
                    for j in T.vectorized(row.lanes):
                        h_in[first + t, row.start(d) + j] = narrow(dtype, read[j])

    return mhc_pre
