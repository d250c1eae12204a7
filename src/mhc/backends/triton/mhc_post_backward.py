"""Gradient of ``mhc_post`` in Triton."""

from __future__ import annotations

import functools
import math

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel import fold, span
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, options, token_grid
from mhc.backends.triton.operator import Operator
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostSpec


@triton.jit(do_not_specialize=["tokens"])
def mhc_post_backward_kernel(
    x,
    y,
    h_post,
    h_res,
    grad_out,
    grad_x,
    grad_y,
    grad_h_post,
    grad_h_res,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` tokens, on a GPU each in a warp of its own.

    The gradients of the coefficients are dot products over hidden. A thread keeps partial sums of all of them, so that
    x, y and grad_out are read once.
    """
    SQUARE: tl.constexpr = STREAMS * STREAMS
    LANES: tl.constexpr = BLOCK_HIDDEN // VECTOR

    # 64 bits from here on: tokens · n · hidden passes 2³¹ long before the memory of a GPU is full.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    wide = rows[:, None] * (STREAMS * HIDDEN)
    narrow = rows[:, None] * HIDDEN

    sums = ()
    for _ in tl.static_range(SQUARE + STREAMS):
        sums = sums + (tl.zeros([BLOCK_TOKENS, LANES], dtype=tl.float32),)
    for start in range(0, HIDDEN, BLOCK_HIDDEN):
        d = span(start, BLOCK_HIDDEN, VECTOR)
        mask = real[:, None] & (d < HIDDEN)[None, :]
        written = tl.load(y + narrow + d[None, :], mask=mask, other=0.0).to(tl.float32)
        streams = ()
        for j in tl.static_range(STREAMS):
            value = tl.load(x + wide + (j * HIDDEN + d)[None, :], mask=mask, other=0.0)
            streams = streams + (value.to(tl.float32),)
        grads = ()
        for i in tl.static_range(STREAMS):
            value = tl.load(grad_out + wide + (i * HIDDEN + d)[None, :], mask=mask, other=0.0)
            grads = grads + (value.to(tl.float32),)

        added = ()
        for i in tl.static_range(STREAMS):
            for j in tl.static_range(STREAMS):
                added = added + (sums[i * STREAMS + j] + fold(grads[i] * streams[j], VECTOR),)
        for i in tl.static_range(STREAMS):
            added = added + (sums[SQUARE + i] + fold(grads[i] * written, VECTOR),)
        sums = added

        for j in tl.static_range(STREAMS):
            total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
            for i in tl.static_range(STREAMS):
                weight = tl.load(h_res + rows * SQUARE + (i * STREAMS + j), mask=real, other=0.0)
                total += weight[:, None] * grads[i]
            # The cast rounds to nearest even.
            result = total.to(grad_x.dtype.element_ty)
            tl.store(grad_x + wide + (j * HIDDEN + d)[None, :], result, mask=mask)
        total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
        for i in tl.static_range(STREAMS):
            weight = tl.load(h_post + rows * STREAMS + i, mask=real, other=0.0)
            total += weight[:, None] * grads[i]
        tl.store(grad_y + narrow + d[None, :], total.to(grad_y.dtype.element_ty), mask=mask)

    for index in tl.static_range(SQUARE):
        tl.store(grad_h_res + rows * SQUARE + index, tl.sum(sums[index], axis=1), mask=real)
    for index in tl.static_range(STREAMS):
        tl.store(grad_h_post + rows * STREAMS + index, tl.sum(sums[SQUARE + index], axis=1), mask=real)


@functools.cache
def config(spec: MhcPostSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, vector, hidden, compiler = 128, 1, min(1024, triton.next_power_of_2(spec.hidden)), {}
    else:
        # A tile has as many rows as there are warps, and as many columns as one warp takes at once: no sum leaves it.
        # Its neighbours are those of one load of 16 bytes, fewer where partial sums take the registers.
        tokens = 4
        vector = math.gcd(spec.hidden, 2 if spec.streams > 4 else 16 // spec.dtype.itemsize)
        hidden = target.warp_size * vector
        compiler = options(tokens)
    constants = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "BLOCK_TOKENS": tokens,
        "BLOCK_HIDDEN": hidden,
        "VECTOR": vector,
    }
    return Config(constants, compiler)


def _launches(inputs: MhcPostBackwardInputs, out: MhcPostGrads, tiles: Config) -> list[Launch]:
    tokens = inputs.x.shape[0]
    return [Launch(mhc_post_backward_kernel, tiles, token_grid(tokens, tiles), (*inputs, *out, tokens))]


def _sources(spec: MhcPostSpec, tiles: Config) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    return [Source(mhc_post_backward_kernel, tiles, (x, x, wide, wide, x, x, x, wide, wide, "i32"))]


_OPERATOR = Operator(mhc_post_backward_kernel, config, _launches, _sources)
run, compile = _OPERATOR.run, _OPERATOR.compile
