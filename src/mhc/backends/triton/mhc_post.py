"""``mhc_post`` in Triton."""

from __future__ import annotations

import functools

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from mhc.backends import Artifact, stage
from mhc.backends.triton.ahead import gpu_target
from mhc.backends.triton.launch import (
    POINTERS,
    Config,
    Launch,
    Source,
    active_target,
    compile_sources,
    elementwise,
    launch,
    options,
)
from mhc.ops.mhc_post import MhcPostInputs, MhcPostOutputs, MhcPostSpec


@triton.jit(do_not_specialize=["tokens"])
def mhc_post_kernel(
    x,
    y,
    h_post,
    h_res,
    out,
    tokens,
    STREAMS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_HIDDEN: tl.constexpr,
):
    """One program computes one tile of tokens by hidden, for all streams."""
    # 64 bits from here on: tokens · n · hidden passes 2³¹ long before the memory of a GPU is full.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    real = rows < tokens
    d = tl.program_id(1) * BLOCK_HIDDEN + tl.arange(0, BLOCK_HIDDEN)
    mask = real[:, None] & (d < HIDDEN)[None, :]
    x_tile = x + rows[:, None] * (STREAMS * HIDDEN) + d[None, :]
    out_tile = out + rows[:, None] * (STREAMS * HIDDEN) + d[None, :]

    streams = ()
    for j in tl.static_range(STREAMS):
        streams = streams + (tl.load(x_tile + j * HIDDEN, mask=mask, other=0.0).to(tl.float32),)
    written = tl.load(y + rows[:, None] * HIDDEN + d[None, :], mask=mask, other=0.0).to(tl.float32)
    for i in tl.static_range(STREAMS):
        total = tl.load(h_post + rows * STREAMS + i, mask=real, other=0.0)[:, None] * written
        for j in tl.static_range(STREAMS):
            weight = tl.load(h_res + rows * (STREAMS * STREAMS) + (i * STREAMS + j), mask=real, other=0.0)
            total += weight[:, None] * streams[j]
        # The cast rounds to nearest even.
        tl.store(out_tile + i * HIDDEN, total.to(out.dtype.element_ty), mask=mask)


@functools.cache
def config(spec: MhcPostSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    tiles = elementwise(spec.streams, spec.hidden, target)
    return Config({"STREAMS": spec.streams, "HIDDEN": spec.hidden, **tiles}, {} if target is None else options(4))


def run(inputs: MhcPostInputs, out: MhcPostOutputs, target: str | None = None) -> None:
    """Launch on the current stream of the inputs' device, or run in Triton's interpreter where that is on.

    Raises:
        RuntimeError: the inputs are on a CPU and the interpreter is off.
        ValueError: ``target`` is another architecture than the inputs' device.
    """
    spec, device, tokens = inputs.spec, inputs.x.device, inputs.x.shape[0]
    with active_target(mhc_post_kernel, device, target) as active:
        with stage("lower"):
            tiles = config(spec, active)
        grid = (
            triton.cdiv(tokens, tiles.constants["BLOCK_TOKENS"]),
            triton.cdiv(spec.hidden, tiles.constants["BLOCK_HIDDEN"]),
        )
        launch(spec, device, Launch(mhc_post_kernel, tiles, grid, (*inputs, *out, tokens)))


@functools.cache
def compile(spec: MhcPostSpec, target: str) -> Artifact:
    """Compile for ``target`` (``sm_90``, ``gfx942``) as :func:`run` would there, with no device.

    Raises:
        ValueError: Triton compiles for no such target, or the kernel needs more shared memory than it has.
    """
    with stage("lower"):
        x = POINTERS[spec.dtype]
        tiles = config(spec, gpu_target(target))
    return compile_sources(target, Source(mhc_post_kernel, tiles, (x, x, "*fp32", "*fp32", x, "i32")))
