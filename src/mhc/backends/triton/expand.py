"""``expand`` in Triton."""

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


def run(inputs: ExpandInputs, out: ExpandOutputs, target: str | None = None) -> None:
    """Launch on the current stream of the input's device, or run in Triton's interpreter where that is on.

    Raises:
        RuntimeError: the input is on a CPU and the interpreter is off.
        ValueError: ``target`` is another architecture than the input's device.
    """
    spec, device, tokens = inputs.spec, inputs.x.device, inputs.x.shape[0]
    with active_target(expand_kernel, device, target) as active:
        with stage("lower"):
            tiles = config(spec, active)
        grid = (
            triton.cdiv(tokens, tiles.constants["BLOCK_TOKENS"]),
            triton.cdiv(spec.hidden, tiles.constants["BLOCK_HIDDEN"]),
        )
        launch(spec, device, Launch(expand_kernel, tiles, grid, (inputs.x, out.out, tokens)))


@functools.cache
def compile(spec: ExpandSpec, target: str) -> Artifact:
    """Compile for ``target`` (``sm_90``, ``gfx942``) as :func:`run` would there, with no device.

    Raises:
        ValueError: Triton compiles for no such target, or the kernel needs more shared memory than it has.
    """
    with stage("lower"):
        x = POINTERS[spec.dtype]
        tiles = config(spec, gpu_target(target))
    return compile_sources(target, Source(expand_kernel, tiles, (x, x, "i32")))
