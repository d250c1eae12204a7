"""The projection of ``mhc_pre`` and ``mhc_head`` for LLVM's CPU targets.

It runs over the flattened streams in chunks. All groups of a block of tokens meet a chunk before the next one. A
group's chunk is widened to fp32 (and weighted with gamma) once, then meets phi a few rows at a time, ``tokens x rows``
vector accumulators in registers. Each chunk has its own sums, which are added up after it: that keeps the rounding
errors of long rows small. The lanes are left to be summed.

While a group meets its chunk, its piece of the next one is fetched, a line for each step: the CPU waits for no memory
between its multiplications, and does not see by itself what comes next, as the pieces of a row are short.
"""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.mhc_pre.tensors import Spec
from mhc.backends.tvm.vectors import STACK_BYTES, Row, fetch, registers, wide

# Bytes of one fp32 row of a chunk. A group's rows and the rows of phi that they meet (ten in all) then stay in a
# first-level cache of 32 KiB, and the chunks of a long row are about as many as the additions of a lane in each.
_CHUNK_BYTES = 1536

# Tokens that meet a chunk of phi before the next chunk: what they share of phi comes from the second-level cache then.
_BLOCK = 12


@dataclass(frozen=True)
class Tile:
    """The blocking of the loops: ``tokens x rows`` accumulators of ``lanes`` floats, for ``groups`` in turn."""

    tokens: int
    groups: int
    rows: int
    lanes: int


def tile(spec: Spec, target: Target) -> Tile:
    """Return the block with the most multiplications per load among those that the target's vector registers hold.

    ``rows`` divides the rows of phi; the registers hold the accumulators, the operands of one side and one more.
    There are two tokens at least, as the accumulators are two buffers.
    """
    lanes, held = registers(target)
    _, tokens, rows = max(
        (tokens * rows / (tokens + rows), tokens, rows)
        for rows in range(1, held)
        for tokens in range(2, 7)
        if spec.mixes % rows == 0
        and tokens * rows + min(tokens, rows) < held
        and (tokens - tokens // 2) * rows * lanes * 4 < STACK_BYTES
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
    block, turns = height * groups, mixes // rows
    fetched = -(-height // turns)  # tokens whose next piece a turn fetches
    row = Row(spec.width, lanes)
    chunks = -(-row.vectors * lanes * 4 // _CHUNK_BYTES)
    chunk = -(-row.vectors // chunks)
    multiply = _multiplication(blocking, row, chunk)

    @T.macro
    def project(x, phi, gamma, tokens, first, sums, squares):
        v = T.alloc_buffer((height, chunk * lanes), f32)
        # Each is small enough for registers.
        lower = T.alloc_buffer((height // 2, rows, lanes), f32)
        upper = T.alloc_buffer((height - height // 2, rows, lanes), f32)
        acc_square = T.alloc_buffer((height, lanes), f32)

        for t in range(block):
            for j in T.vectorized(lanes):
                squares[t, j] = T.float32(0)
        for t, o in T.grid(block, mixes):
            for j in T.vectorized(lanes):
                sums[t, o, j] = T.float32(0)

        for c in range(chunks):
            # Behind the last chunk comes the first one of the next block.
            next_first: T.let = T.if_then_else(c + 1 < chunks, first, first + block)
            next_vector: T.let = T.if_then_else(c + 1 < chunks, (c + 1) * chunk, 0)
            for g in range(T.min(T.int64(groups), T.truncdiv(tokens - first + (height - 1), T.int64(height)))):
                # Each sum of squares waits for its last addition: the sums of all tokens go at the same time.
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
                for o in range(turns):
                    multiply.clear(lower)
                    multiply.clear(upper)
                    for k in range(T.min(chunk, row.vectors - c * chunk)):
                        for t in T.unroll(fetched):
                            T.evaluate(
                                fetch(
                                    x[
                                        T.min(next_first + g * height + T.min(o * fetched + t, height - 1), tokens - 1),
                                        row.start(T.min(next_vector + k, row.vectors - 1)),
                                    ],
                                    cache=1,
                                )
                            )
                        multiply.meet(lower, 0, v, phi, o, c, k)
                        multiply.meet(upper, height // 2, v, phi, o, c, k)
                    multiply.add(lower, g * height, sums, o)
                    multiply.add(upper, g * height + height // 2, sums, o)

    return project


def _multiplication(blocking: Tile, row: Row, chunk: int) -> Any:
    """Return the macros for the accumulators of some tokens of a group."""
    rows, lanes = blocking.rows, blocking.lanes

    @T.macro
    def clear(acc):
        for t in T.unroll(acc.shape[0]):
            for p in T.unroll(rows):
                for j in T.vectorized(lanes):
                    acc[t, p, j] = T.float32(0)

    @T.macro
    def meet(acc, begin, v, phi, o, c, k):
        for t in T.unroll(acc.shape[0]):
            for p in T.unroll(rows):
                for j in T.vectorized(lanes):
                    acc[t, p, j] = (
                        acc[t, p, j] + v[begin + t, k * lanes + j] * phi[o * rows + p, row.start(c * chunk + k) + j]
                    )

    @T.macro
    def add(acc, begin, sums, o):
        for t in T.unroll(acc.shape[0]):
            for p in T.unroll(rows):
                for j in T.vectorized(lanes):
                    sums[begin + t, o * rows + p, j] = sums[begin + t, o * rows + p, j] + acc[t, p, j]

    return SimpleNamespace(clear=clear, meet=meet, add=add)
