"""The projection of ``mhc_pre`` and its blocking, the same in both directions.

It runs over the flattened streams in chunks: a chunk of a block of tokens is widened to fp32 (and weighted with gamma)
once, then meets phi a few rows at a time, ``tokens x rows`` vector accumulators in registers. Each chunk has its own
sums, which are added up after it: that keeps the rounding errors of long rows small. The lanes are left to be summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.operator import Operands
from mhc.backends.tvm.vectors import STACK_BYTES, Row, registers, wide
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreInputs, MhcPreSpec

# Bytes of one fp32 row of a chunk. A block's rows and the rows of phi that they meet (about eight in all) then stay
# in a first-level cache of 32 KiB.
_CHUNK_BYTES = 2048


@dataclass(frozen=True)
class Tile:
    """How the loops are blocked: ``tokens x rows`` accumulators of ``lanes`` floats."""

    tokens: int
    rows: int
    lanes: int


def forward_operands(tensors: MhcPreInputs | MhcPreBackwardInputs | MhcPreGrads) -> Operands:
    """The forward's inputs, or their gradients, as both directions take them: a token's streams in one row."""
    return {
        "x": tensors.x.view(tensors.x.shape[0], -1),
        "phi": tensors.phi,
        "alpha": tensors.alpha,
        "bias": tensors.bias,
        "gamma": None if tensors.gamma is None else tensors.gamma.view(-1),
    }


def tile(spec: MhcPreSpec, target: Target) -> Tile:
    """The block with the most multiplications per load among those that the target's vector registers hold.

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
    return Tile(tokens, rows, Row.of(spec.width, lanes).lanes)


def projection(spec: MhcPreSpec, blocking: Tile) -> Any:
    """A macro ``project(x, phi, gamma, tokens, block, total, square)``.

    It writes ``total[t, o, lane]`` and ``square[t, lane]``, whose sums over the lanes are (v · gamma) @ phiᵀ and v²,
    for the tokens of one block. Without gamma its third argument is not looked at.
    """
    f32 = "float32"
    mixes = spec.mixes
    height, rows, lanes = blocking.tokens, blocking.rows, blocking.lanes
    row = Row(spec.width, lanes)
    chunks = -(-row.vectors * lanes * 4 // _CHUNK_BYTES)
    chunk = -(-row.vectors // chunks)

    @T.macro
    def project(x, phi, gamma, tokens, block, total, square):
        v = T.alloc_buffer((height, chunk * lanes), f32)
        acc = T.alloc_buffer((height, rows, lanes), f32)
        acc_square = T.alloc_buffer((lanes,), f32)

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
                for k in range(T.min(chunk, row.vectors - c * chunk)):
                    for j in T.vectorized(lanes):
                        # A last block that is not full repeats the last token.
                        v[t, k * lanes + j] = wide(
                            x[T.min(block * height + t, tokens - 1), row.start(c * chunk + k) + j]
                        )
                    if row.ragged:
                        for j in T.vectorized(lanes):
                            v[t, k * lanes + j] = row.once(c * chunk + k, j, v[t, k * lanes + j])
                    for j in T.vectorized(lanes):
                        acc_square[j] = acc_square[j] + v[t, k * lanes + j] * v[t, k * lanes + j]
                    if spec.gamma:
                        for j in T.vectorized(lanes):
                            v[t, k * lanes + j] = v[t, k * lanes + j] * gamma[row.start(c * chunk + k) + j]
                for j in T.vectorized(lanes):
                    square[t, j] = square[t, j] + acc_square[j]
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
                                    acc[t, p, j] + v[t, k * lanes + j] * phi[o * rows + p, row.start(c * chunk + k) + j]
                                )
                for t in T.unroll(height):
                    for p in T.unroll(rows):
                        for j in T.vectorized(lanes):
                            total[t, o * rows + p, j] = total[t, o * rows + p, j] + acc[t, p, j]

    return project
