"""``mhc_post`` and its gradient in Triton."""

from __future__ import annotations

import functools
import math
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import (
    POINTERS,
    Config,
    Launch,
    Source,
    cdiv,
    elementwise,
    elementwise_grid,
    options,
    token_grid,
)
from mhc.backends.triton.mhc_post.backward import mhc_post_backward_kernel
from mhc.backends.triton.mhc_post.forward import mhc_post_kernel
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs, MhcPostSpec


@functools.cache
def _config(spec: MhcPostSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    tiles = elementwise(spec.streams, spec.hidden, target)
    if target is not None and target.backend == "cuda" and tiles["BLOCK_TOKENS"] == 1:
        tiles = {"BLOCK_TOKENS": 2, "BLOCK_HIDDEN": tiles["BLOCK_HIDDEN"] // 2}
    return Config({"STREAMS": spec.streams, "HIDDEN": spec.hidden, **tiles}, {} if target is None else options(4))


def _launches(inputs: MhcPostInputs, out: MhcPostOutputs, tiles: Config) -> list[Launch]:
    tokens, hidden = inputs.y.shape[:-1].numel(), inputs.y.shape[-1]
    return [Launch(mhc_post_kernel, tiles, elementwise_grid(tokens, hidden, tiles), (*inputs, *out, tokens))]


def _sources(spec: MhcPostSpec, tiles: Config) -> list[Source]:
    x = POINTERS[spec.dtype]
    return [Source(mhc_post_kernel, tiles, (x, x, "*fp32", "*fp32", x, "i32"))]


_WIDE = 4096  # columns from which on the backward takes 1024 of a token at a time


@functools.cache
def _backward_config(spec: MhcPostSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, vector, hidden, stages, compiler = 128, 1, min(1024, triton.next_power_of_2(spec.hidden)), 1, {}
    elif target.backend == "cuda" and target.arch >= 90 and spec.streams <= 4 and spec.dtype.itemsize == 2:
        # The next columns are loaded ahead. Of wide tokens partial sums are few, and their threads many.
        tokens, stages = 1, 3
        vector, hidden = (math.gcd(spec.hidden, 8), 1024) if spec.hidden >= _WIDE else (1, 256)
        compiler = options(hidden // 256)
    else:
        # A tile has as many rows as there are warps, and as many columns as one warp takes at once: no sum leaves it.
        # Its neighbours fill one load of 16 bytes; they are fewer where partial sums take the registers.
        tokens = 4
        vector = math.gcd(spec.hidden, 2 if spec.streams > 4 else 16 // spec.dtype.itemsize)
        hidden, stages = target.warp_size * vector, 1
        compiler = options(tokens)
    constants = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "ROWS": spec.streams,
        "BLOCK_TOKENS": tokens,
        "BLOCK_HIDDEN": hidden,
        "VECTOR": vector,
        "STAGES": stages,
    }
    return Config(constants, compiler)


# With more streams the sums of the coefficients' gradients need more registers than a thread has: one launch makes the
# gradients of x and y, and another the gradients of the coefficients, a few rows of h_res in each program.
_FUSED_STREAMS = 8
_ROWS = 4


def _parts(tiles: Config) -> list[tuple[Config, int, slice]]:
    """Return of each launch its tiles, its programs along the streams, and which of the four gradients it makes."""
    streams = tiles.constants["STREAMS"]
    if streams <= _FUSED_STREAMS:
        return [(tiles, 1, slice(0, 4))]
    in_groups = Config({**tiles.constants, "ROWS": _ROWS}, tiles.options)
    return [(tiles, 1, slice(0, 2)), (in_groups, cdiv(streams, _ROWS), slice(2, 4))]


def _only(part: slice, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the gradients of one part, and None in the places of the others."""
    return tuple(grad if index in range(4)[part] else None for index, grad in enumerate(grads))


def _backward_launches(inputs: MhcPostBackwardInputs, out: MhcPostGrads, tiles: Config) -> list[Launch]:
    tokens = inputs.x.shape[:-2].numel()
    launches = []
    for config, groups, part in _parts(tiles):
        grads = _only(part, out)
        if any(grad is not None for grad in grads):
            grid = (*token_grid(tokens, config), groups)
            launches.append(Launch(mhc_post_backward_kernel, config, grid, (*inputs[:5], *grads, tokens)))
    return launches


def _backward_sources(spec: MhcPostSpec, tiles: Config) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    return [
        Source(mhc_post_backward_kernel, config, (x, x, wide, wide, x, *_only(part, (x, x, wide, wide)), "i32"))
        for config, _, part in _parts(tiles)
    ]


FORWARD = Kernel(mhc_post_kernel, _config, _launches, _sources)
BACKWARD = Kernel(mhc_post_backward_kernel, _backward_config, _backward_launches, _backward_sources)
