"""``expand`` in Triton."""

from __future__ import annotations

import functools

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, elementwise, elementwise_grid, options
from mhc.backends.triton.operator import Operator
from mhc.ops.expand import ExpandInputs, ExpandOutputs, ExpandSpec


@triton.jit(do_not_specialize=["tokens"])
def expand_kernel(
    x,
    out,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program copies one tile of tokens by hidden to all streams."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)[:, None]
    d = tl.program_id(1) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)[None, :]
    mask = (rows < tokens) & (d < HIDDEN)
    value = tl.load(x + rows * HIDDEN + d, mask=mask)
    for stream in tl.static_range(STREAMS):
        tl.store(out + rows * (STREAMS * HIDDEN) + (stream * HIDDEN + d), value, mask=mask)


@functools.cache
def config(spec: ExpandSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    tiles = elementwise(spec.streams, spec.hidden, target)
    return Config({"STREAMS": spec.streams, "HIDDEN": spec.hidden, **tiles}, {} if target is None else options(4))


def _launches(inputs: ExpandInputs, out: ExpandOutputs, tiles: Config) -> list[Launch]:
    tokens, hidden = inputs.x.shape
    return [Launch(expand_kernel, tiles, elementwise_grid(tokens, hidden, tiles), (inputs.x, out.out, tokens))]


def _sources(spec: ExpandSpec, tiles: Config) -> list[Source]:
    x = POINTERS[spec.dtype]
    return [Source(expand_kernel, tiles, (x, x, "i32"))]


_OPERATOR = Operator(expand_kernel, config, _launches, _sources)
run, compile = _OPERATOR.run, _OPERATOR.compile
