"""``mhc_read`` and its gradient in Triton."""

from __future__ import annotations

import functools

import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import (
    POINTERS,
    Config,
    Launch,
    Source,
    elementwise,
    elementwise_grid,
    options,
    token_grid,
)
from mhc.backends.triton.mhc_read.kernels import mhc_read_backward_kernel, mhc_read_kernel
from mhc.ops.mhc_read import MhcReadBackwardInputs, MhcReadGrads, MhcReadInputs, MhcReadOutputs, MhcReadSpec

_WARPS = 4


@functools.cache
def _config(spec: MhcReadSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    tiles = elementwise(spec.streams, spec.hidden, target)
    return Config({"STREAMS": spec.streams, "HIDDEN": spec.hidden, **tiles}, {} if target is None else options(_WARPS))


def _launches(inputs: MhcReadInputs, out: MhcReadOutputs, tiles: Config) -> list[Launch]:
    tokens, hidden = inputs.x.shape[:-2].numel(), inputs.x.shape[-1]
    return [Launch(mhc_read_kernel, tiles, elementwise_grid(tokens, hidden, tiles), (*inputs, out.h_in, tokens))]


def _sources(spec: MhcReadSpec, tiles: Config) -> list[Source]:
    x = POINTERS[spec.dtype]
    return [Source(mhc_read_kernel, tiles, (x, "*fp32", x, "i32"))]


@functools.cache
def _backward_config(spec: MhcReadSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, hidden, compiler = 128, min(1024, triton.next_power_of_2(spec.hidden)), {}
    else:
        tokens, hidden, compiler = _WARPS, 4 * target.warp_size, options(_WARPS)
    sizes = {"STREAMS": spec.streams, "HIDDEN": spec.hidden, "BLOCK_TOKENS": tokens, "BLOCK_HIDDEN": hidden}
    return Config(sizes, compiler)


def _backward_launches(inputs: MhcReadBackwardInputs, out: MhcReadGrads, tiles: Config) -> list[Launch]:
    tokens = inputs.x.shape[:-2].numel()
    return [Launch(mhc_read_backward_kernel, tiles, token_grid(tokens, tiles), (*inputs[:3], *out, tokens))]


def _backward_sources(spec: MhcReadSpec, tiles: Config) -> list[Source]:
    x = POINTERS[spec.dtype]
    return [Source(mhc_read_backward_kernel, tiles, (x, "*fp32", x, x, "*fp32", "i32"))]


FORWARD = Kernel(mhc_read_kernel, _config, _launches, _sources)
BACKWARD = Kernel(mhc_read_backward_kernel, _backward_config, _backward_launches, _backward_sources)
