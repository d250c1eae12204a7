"""Gradient of ``expand`` in Triton: the sum over the streams."""

from __future__ import annotations

import triton
import triton.language as tl

from mhc.backends.triton.expand import config
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, elementwise_grid
from mhc.backends.triton.operator import Operator
from mhc.ops.expand import ExpandBackwardInputs, ExpandGrads, ExpandSpec


@triton.jit(do_not_specialize=["tokens"])
def expand_backward_kernel(
    grad_out,
    grad_x,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes one tile of tokens by hidden."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)[:, None]
    d = tl.program_id(1) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)[None, :]
    mask = (rows < tokens) & (d < HIDDEN)
    total = tl.zeros([BLOCK_TOKENS, BLOCK_HIDDEN], dtype=tl.float32)
    for stream in tl.static_range(STREAMS):
        value = tl.load(grad_out + rows * (STREAMS * HIDDEN) + (stream * HIDDEN + d), mask=mask, other=0.0)
        total += value.to(tl.float32)
    # The cast rounds to nearest even.
    tl.store(grad_x + rows * HIDDEN + d, total.to(grad_x.dtype.element_ty), mask=mask)


def _launches(inputs: ExpandBackwardInputs, out: ExpandGrads, tiles: Config) -> list[Launch]:
    tokens, _, hidden = inputs.grad_out.shape
    grid = elementwise_grid(tokens, hidden, tiles)
    return [Launch(expand_backward_kernel, tiles, grid, (inputs.grad_out, out.x, tokens))]


def _sources(spec: ExpandSpec, tiles: Config) -> list[Source]:
    x = POINTERS[spec.dtype]
    return [Source(expand_backward_kernel, tiles, (x, x, "i32"))]


_OPERATOR = Operator(expand_backward_kernel, config, _launches, _sources)
run, compile = _OPERATOR.run, _OPERATOR.compile
