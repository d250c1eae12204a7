"""The RMSNorm behind a read, and its gradient; the operators that have it hand all of their tensors over.

The variants ``NORMALISE`` of ``mhc_pre`` have it in their last launch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch, token_grid
from mhc.backends.triton.mhc_pre.gradients import chunks_of
from mhc.backends.triton.mhc_pre.tensors import has_powers, is_fp8, norm_behind, norm_types
from mhc.backends.triton.norm.kernels import (
    norm_backward_kernel,
    norm_kernel,
    norm_weight_kernel,
    norm_weight_sums_kernel,
)

NORMALISE = ("overlapped", "few")
_WARPS = 4


def _config(spec: Any, target: GPUTarget | None) -> Config:
    return _tiles(spec, target, NORM_EPS=spec.norm_eps, POWERS=has_powers(spec))


def _tiles(spec: Any, target: GPUTarget | None, **constants: float) -> Config:
    """Decide the tiles: as many rows as warps, so that no sum over columns leaves a warp."""
    if target is None:
        tokens, hidden, compiler = 128, min(1024, triton.next_power_of_2(spec.hidden)), {}
    else:
        tokens, hidden, compiler = _WARPS, 8 * target.warp_size, options(_WARPS)
    return Config({"HIDDEN": spec.hidden, **constants, "BLOCK_TOKENS": tokens, "BLOCK_HIDDEN": hidden}, compiler)


def _launches(inputs: Any, out: Any, tiles: Config) -> list[Launch]:
    tokens = inputs.x.shape[:-2].numel()
    norm = (out.read, *norm_behind(inputs, out), tokens)
    return [Launch(norm_kernel, tiles, token_grid(tokens, tiles), norm)]


def _sources(spec: Any, tiles: Config) -> list[Source]:
    return [Source(norm_kernel, tiles, (POINTERS[spec.dtype], *norm_types(spec), "i32"))]


def _limit(spec: Any, target: GPUTarget | None) -> str | None:
    if is_fp8(spec) and target is not None and target.backend == "cuda" and target.arch < 89:
        return "Triton has fp8 (e4m3) on NVIDIA from sm_89 on"
    return None


class _BackwardTiles(NamedTuple):
    """``weight`` and ``sums`` are for the gradient of the weight."""

    norm: Config
    weight: Config
    sums: Config


def _backward_config(spec: Any, target: GPUTarget | None) -> _BackwardTiles:
    norm = _tiles(spec, target)
    rows, columns = (512, 1024) if target is None else (16, 128)
    tile = {"HIDDEN": spec.hidden, "BLOCK_TOKENS": rows, "BLOCK_HIDDEN": columns}
    sums = {"HIDDEN": spec.hidden, "BLOCK": columns}
    return _BackwardTiles(norm, Config(tile, norm.options), Config(sums, norm.options))


def _backward_launches(
    inputs: Any, out: tuple[torch.Tensor, torch.Tensor | None], tiles: _BackwardTiles
) -> list[Launch]:
    """Return the launches; ``out`` are the gradients of what was read, and of the weight where it is asked for."""
    grad_read, grad_weight = out
    tokens, hidden = inputs.read.shape[:-1].numel(), inputs.read.shape[-1]
    norm = (inputs.read, inputs.norm_weight, inputs.s, inputs.grad_h_in, grad_read, tokens)
    launches = [Launch(norm_backward_kernel, tiles.norm, token_grid(tokens, tiles.norm), norm)]
    if grad_weight is not None:
        constants = tiles.weight.constants
        blocks = cdiv(hidden, constants["BLOCK_HIDDEN"])
        chunk, count = chunks_of(tokens, blocks, constants["BLOCK_TOKENS"])
        [chunks] = scratch(inputs.x, count * hidden)
        weight = (inputs.read, inputs.s, inputs.grad_h_in, chunks, tokens, chunk)
        launches.append(Launch(norm_weight_kernel, tiles.weight, (blocks, count), weight))
        launches.append(Launch(norm_weight_sums_kernel, tiles.sums, (blocks,), (chunks, grad_weight, count)))
    return launches


def _backward_sources(spec: Any, tiles: _BackwardTiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    return [
        Source(norm_backward_kernel, tiles.norm, (x, wide, wide, x, x, "i32")),
        Source(norm_weight_kernel, tiles.weight, (x, wide, x, wide, "i32", "i32")),
        Source(norm_weight_sums_kernel, tiles.sums, (wide, wide, "i32")),
    ]


FORWARD = Kernel(norm_kernel, _config, _launches, _sources, _limit)
BACKWARD = Kernel(norm_backward_kernel, _backward_config, _backward_launches, _backward_sources)
