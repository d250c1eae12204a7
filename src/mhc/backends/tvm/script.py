"""The tirx script of ``mhc_pre`` and the blocking of its loops.

A block of tokens goes through three phases. The projection runs over the flattened streams in chunks: a chunk of the
block is widened to fp32 (and weighted with gamma) once, then meets phi a few rows at a time, ``tokens x rows`` vector
accumulators in registers. Each chunk has its own sums, which are added up after it: that keeps the rounding errors of
long rows small. The lanes are summed last, into the coefficients, and a second pass over the block, still in the cache,
reads ``h_in`` out of the streams.

Widths that are no multiple of a vector need no scalar code: the last vector is moved back to end with the row, and the
lanes that it shares with the one before are zeroed (projection) or computed twice to the same value (``h_in``).
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm.script import tirx as T
from tvm.target import Target
from tvm.target import codegen as llvm

from mhc.ops.mhc_pre import MhcPreSpec

ENTRY = "mhc_pre"

# Bytes of one fp32 row of a chunk. A block's rows and the rows of phi that they meet (about eight in all) then stay
# in a first-level cache of 32 KiB.
_CHUNK_BYTES = 2048

# TVM gives a buffer a place on the stack, and LLVM can take it from there to registers, up to this many bytes.
_STACK_BYTES = 1024


@dataclass(frozen=True)
class Tile:
    """How the loops are blocked: ``tokens x rows`` accumulators of ``lanes`` floats."""

    tokens: int
    rows: int
    lanes: int


def tile(spec: MhcPreSpec, target: Target) -> Tile:
    """The block with the most multiplications per load among those that the target's vector registers hold.

    ``rows`` divides the rows of phi; beside the accumulators the registers hold the operands of one side and one more.
    """
    if llvm.llvm_cpu_has_features("avx512f", target):
        lanes, registers = 16, 32
    elif llvm.llvm_cpu_has_features("avx", target):
        lanes, registers = 8, 16
    else:
        lanes, registers = 4, 16
    _, tokens, rows = max(
        (tokens * rows / (tokens + rows), tokens, rows)
        for rows in range(1, registers)
        for tokens in range(1, 7)
        if spec.mixes % rows == 0
        and tokens * rows + min(tokens, rows) < registers
        and tokens * rows * lanes * 4 <= _STACK_BYTES
    )
    return Tile(tokens, rows, min(lanes, _power_of_two(spec.width)))


def _power_of_two(number: int) -> int:
    """The largest power of two that is not above ``number``."""
    return 1 << (number.bit_length() - 1)


def script(spec: MhcPreSpec, blocking: Tile) -> tvm.IRModule:
    """The kernel for any number of tokens; without gamma its fifth argument is not looked at."""
    f32 = "float32"
    dtype = str(spec.dtype).removeprefix("torch.")
    size = spec.dtype.itemsize
    n, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    height, rows, lanes = blocking.tokens, blocking.rows, blocking.lanes
    lanes_in = min(lanes, _power_of_two(hidden))
    vectors = -(-width // lanes)
    chunks = -(-vectors * lanes * 4 // _CHUNK_BYTES)
    chunk = -(-vectors // chunks)
    ragged = width % lanes != 0

    def start(vector):
        """Where a vector of the flattened streams begins: the last one ends with the row."""
        return T.min(vector * lanes, width - lanes) if ragged else vector * lanes

    def start_in(vector):
        """Where a vector of one stream begins."""
        return T.min(vector * lanes_in, hidden - lanes_in) if hidden % lanes_in else vector * lanes_in

    def narrow(value):
        """Round to x's dtype. TVM makes bf16 by adding to the bits, which carries some NaNs over into zeros."""
        if dtype == "bfloat16":
            value = T.Select(T.isnan(value), T.float32(float("nan")), value)
        return T.Cast(dtype, value)

    # Tensors are asked for no more than their elements' alignment: views into larger ones are taken as they are.
    @T.prim_func
    def mhc_pre(
        x_: T.handle,
        phi_: T.handle,
        alpha_: T.handle,
        bias_: T.handle,
        gamma_: T.handle,
        h_in_: T.handle,
        h_post_: T.handle,
        h_res_: T.handle,
    ):
        T.func_attr({"global_symbol": ENTRY, "tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_, (tokens, width), dtype, align=size)
        phi = T.match_buffer(phi_, (mixes, width), f32, align=4)
        alpha = T.match_buffer(alpha_, (3,), f32, align=4)
        bias = T.match_buffer(bias_, (mixes,), f32, align=4)
        if spec.gamma:
            gamma = T.match_buffer(gamma_, (width,), f32, align=4)
        h_in = T.match_buffer(h_in_, (tokens, hidden), dtype, align=size)
        h_post = T.match_buffer(h_post_, (tokens, n), f32, align=4)
        h_res = T.match_buffer(h_res_, (tokens, n * n), f32, align=4)

        for block in T.parallel(T.truncdiv(tokens + (height - 1), T.int64(height))):
            v = T.alloc_buffer((height, chunk * lanes), f32)
            total = T.alloc_buffer((height, mixes, lanes), f32)
            square = T.alloc_buffer((height, lanes), f32)
            acc = T.alloc_buffer((height, rows, lanes), f32)
            acc_square = T.alloc_buffer((lanes,), f32)
            mix = T.alloc_buffer((mixes,), f32)
            pre = T.alloc_buffer((n,), f32)
            read = T.alloc_buffer((lanes_in,), f32)
            r = T.alloc_buffer((1,), f32)

            for t in range(height):
                for j in T.vectorized(lanes):
                    square[t, j] = T.float32(0)
            for t, o in T.grid(height, mixes):
                for j in T.vectorized(lanes):
                    total[t, o, j] = T.float32(0)

            for c in range(chunks):
                for t in range(height):
                    for j in T.vectorized(lanes):
                        acc_square[j] = T.float32(0)
                    for k in range(T.min(chunk, vectors - c * chunk)):
                        for j in T.vectorized(lanes):
                            # A last block that is not full repeats the last token, and does not store it again.
                            v[t, k * lanes + j] = T.Cast(
                                f32, x[T.min(block * height + t, tokens - 1), start(c * chunk + k) + j]
                            )
                        if ragged:
                            for j in T.vectorized(lanes):
                                v[t, k * lanes + j] = T.Select(
                                    start(c * chunk + k) + j >= (c * chunk + k) * lanes,
                                    v[t, k * lanes + j],
                                    T.float32(0),
                                )
                        for j in T.vectorized(lanes):
                            acc_square[j] = acc_square[j] + v[t, k * lanes + j] * v[t, k * lanes + j]
                        if spec.gamma:
                            for j in T.vectorized(lanes):
                                v[t, k * lanes + j] = v[t, k * lanes + j] * gamma[start(c * chunk + k) + j]
                    for j in T.vectorized(lanes):
                        square[t, j] = square[t, j] + acc_square[j]
                for o in range(mixes // rows):
                    for t in T.unroll(height):
                        for p in T.unroll(rows):
                            for j in T.vectorized(lanes):
                                acc[t, p, j] = T.float32(0)
                    for k in range(T.min(chunk, vectors - c * chunk)):
                        for t in T.unroll(height):
                            for p in T.unroll(rows):
                                for j in T.vectorized(lanes):
                                    acc[t, p, j] = (
                                        acc[t, p, j] + v[t, k * lanes + j] * phi[o * rows + p, start(c * chunk + k) + j]
                                    )
                    for t in T.unroll(height):
                        for p in T.unroll(rows):
                            for j in T.vectorized(lanes):
                                total[t, o * rows + p, j] = total[t, o * rows + p, j] + acc[t, p, j]

            for t in range(T.min(T.int64(height), tokens - block * height)):
                r[0] = T.float32(0)
                for j in T.unroll(lanes):
                    r[0] = r[0] + square[t, j]
                r[0] = T.rsqrt(r[0] / T.float32(width) + T.float32(spec.norm_eps))
                for o in range(mixes):
                    mix[o] = T.float32(0)
                    for j in T.unroll(lanes):
                        mix[o] = mix[o] + total[t, o, j]
                    mix[o] = mix[o] * r[0]
                for i in range(n):
                    pre[i] = T.sigmoid(alpha[0] * mix[i] + bias[i]) + T.float32(spec.pre_eps)
                    h_post[block * height + t, i] = T.float32(2) * T.sigmoid(alpha[1] * mix[n + i] + bias[n + i])
                for i in range(n * n):
                    h_res[block * height + t, i] = alpha[2] * mix[2 * n + i] + bias[2 * n + i]
                for d in range(-(-hidden // lanes_in)):
                    for j in T.vectorized(lanes_in):
                        read[j] = T.float32(0)
                    for i in T.unroll(n):
                        for j in T.vectorized(lanes_in):
                            read[j] = read[j] + pre[i] * T.Cast(
                                f32, x[block * height + t, i * hidden + start_in(d) + j]
                            )
                    for j in T.vectorized(lanes_in):
                        h_in[block * height + t, start_in(d) + j] = narrow(read[j])

    return tvm.IRModule({ENTRY: mhc_pre})
