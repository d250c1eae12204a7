"""Gradient of ``expand`` in Triton: the sum over the streams."""

from __future__ import annotations

import functools

import triton
import triton.language as tl

from mhc.backends import Artifact, stage
from mhc.backends.triton.ahead import gpu_target
from mhc.backends.triton.expand import config
from mhc.backends.triton.launch import POINTERS, Launch, Source, active_target, compile_sources, launch
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


def run(inputs: ExpandBackwardInputs, out: ExpandGrads, target: str | None = None) -> None:
    """Launch on the current stream of the gradient's device, or run in Triton's interpreter where that is on.

    Raises:
        RuntimeError: the gradient is on a CPU and the interpreter is off.
        ValueError: ``target`` is another architecture than the gradient's device.
    """
    spec, device, tokens = inputs.spec, inputs.grad_out.device, inputs.grad_out.shape[0]
    with active_target(expand_backward_kernel, device, target) as active:
        with stage("lower"):
            tiles = config(spec, active)
        grid = (
            triton.cdiv(tokens, tiles.constants["BLOCK_TOKENS"]),
            triton.cdiv(spec.hidden, tiles.constants["BLOCK_HIDDEN"]),
        )
        launch(spec, device, Launch(expand_backward_kernel, tiles, grid, (inputs.grad_out, out.x, tokens)))


@functools.cache
def compile(spec: ExpandSpec, target: str) -> Artifact:
    """Compile for ``target`` (``sm_90``, ``gfx942``) as :func:`run` would there, with no device.

    Raises:
        ValueError: Triton compiles for no such target, or the kernel needs more shared memory than it has.
    """
    with stage("lower"):
        x = POINTERS[spec.dtype]
        tiles = config(spec, gpu_target(target))
    return compile_sources(target, Source(expand_backward_kernel, tiles, (x, x, "i32")))
