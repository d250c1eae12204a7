"""The variants ``overlapped`` and ``few`` of a read: x in bf16, read for h_in from the cache.

``few`` is for few tokens: two launches in place of three, twice as many programs, and the same bits.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.reading import Inputs, Outputs, Spec, results
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch
from mhc.backends.triton.mhc_pre.forward_overlapped import COUNTER, project_strip_kernel, read_kernel
from mhc.backends.triton.mhc_pre.gradients import GROUP, post_scale
from mhc.backends.triton.mhc_pre.products import weights_config, weights_elements, weights_launch, weights_source
from mhc.backends.triton.mhc_pre.tensors import has_powers, norm_of, norm_types, result_types

_PROGRAMS = 132  # of the projection: one for each multiprocessor of an H200
_MOST_WIDTH = 32768  # columns of x that a program of four warps has in registers
_AHEAD_BYTES = 4 << 20  # of x, brought to the L2 cache while the launch before ends; at hidden 7168 more was slower
MOST_INTERPRETED = 16  # tokens: each is a program of its own


class _Tiles(NamedTuple):
    """``groups`` is the most programs that share the tokens of a strip."""

    groups: int
    weights: Config
    project: Config
    read: Config


def limit(spec: Spec, target: GPUTarget | None) -> str | None:
    """Return why the variant does not run ``spec`` on ``target``; the interpreter computes its products in fp32."""
    if spec.mixes > GROUP:
        return f"there are {spec.mixes} mixes; a program has the sums of {GROUP}"
    if target is None:
        return None
    if spec.dtype != torch.bfloat16:
        return f"x is {str(spec.dtype).removeprefix('torch.')}, and this variant is for bf16"
    if target.backend != "cuda" or target.arch != 90:
        return "it is for NVIDIA's sm_90"
    if spec.streams * triton.next_power_of_2(spec.hidden) > _MOST_WIDTH:
        return f"a token has {spec.width} elements; a program holds {_MOST_WIDTH}"
    return None


@functools.cache
def _config(spec: Spec, target: GPUTarget | None) -> _Tiles:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None.

    The strips do not depend on the number of tokens: a token's sums have the same order in every batch.
    """
    block = triton.next_power_of_2(spec.hidden)
    if target is None:
        form, steps, tokens, tile = "ieee", 2, 2, 256
        compiler = {}
    else:
        form, steps, tokens, tile = "bf16x3", 2, 64, 128
        compiler = options(4) | {"launch_pdl": True}
    strips = cdiv(spec.width, steps * tile)
    weights = weights_config(form, spec, target, strips * steps * tile)
    shared = {"MIXES": spec.mixes, "PADDED": GROUP, "STRIPS": strips, "BESIDE": target is not None}
    project = {
        "WIDTH": spec.width,
        "LINE": weights.constants["LINE"],
        "FORM": form,
        "STEPS": steps,
        "PARTS": 1 if target is None else 4,  # a power of two: three, and zeros
        "BLOCK_TOKENS": tokens,
        "BLOCK_WIDTH": tile,
        "STAGES": 3,
        "AHEAD": 0,
    }
    read = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "NORM_EPS": spec.norm_eps,
        "PRE_EPS": spec.pre_eps,
        "POST_SCALE": post_scale(spec),
        "BLOCK_STRIPS": triton.next_power_of_2(strips),
        "COUNTED": tokens,
        "BLOCK_HIDDEN": block,
        "SPLIT": 1,
        "POWERS": has_powers(spec),
    }
    groups = 2 if target is None else max(1, _PROGRAMS // strips)
    return _Tiles(groups, weights, Config({**shared, **project}, compiler), Config({**shared, **read}, compiler))


@functools.cache
def few_config(spec: Spec, target: GPUTarget | None) -> _Tiles:
    """Decide the tiles of ``few``: a program has one tile of a strip, and of tokens one block or few."""
    tiles = _config(spec, target)
    project = dict(tiles.project.constants)
    split = project["STEPS"]
    ahead = max(1, _AHEAD_BYTES // (2 * spec.width * project["BLOCK_TOKENS"]))
    project |= {"STEPS": 1, "STRIPS": split * project["STRIPS"], "STAGES": 1, "AHEAD": ahead}
    read = tiles.read.constants | {"SPLIT": split}
    return tiles._replace(project=Config(project, tiles.project.options), read=Config(read, tiles.read.options))


@functools.cache
def _wide_config(spec: Spec, target: GPUTarget | None) -> _Tiles:
    """Decide the tiles of ``few`` with eight warps in the read, which adds the squares up in another order."""
    tiles = few_config(spec, target)
    compiler = {} if target is None else tiles.read.options | options(8)
    return tiles._replace(read=Config(tiles.read.constants, compiler))


def _launches(inputs: Inputs, out: Outputs, tiles: _Tiles) -> list[Launch]:
    x, tokens = inputs.x, inputs.x.shape[:-2].numel()
    strips, blocks = tiles.project.constants["STRIPS"], cdiv(tokens, tiles.project.constants["BLOCK_TOKENS"])
    count = blocks * COUNTER.value
    room, sums, counted = scratch(x, weights_elements(tiles.weights), tokens * strips * GROUP, count)
    counters = counted.view(torch.int32)
    weights, first = weights_launch(inputs, tiles.weights, room, counters)
    groups = min(blocks, tiles.groups)
    project = (x, weights, None, None, sums, counters, tokens, groups)
    return [
        first,
        Launch(project_strip_kernel, tiles.project, (strips * groups,), project),
        _read(inputs, out, tiles, sums, counters),
    ]


def _read(inputs: Inputs, out: Outputs, tiles: _Tiles, sums: torch.Tensor, counters: torch.Tensor | None) -> Launch:
    """Return the launch that adds the sums up and reads x again."""
    arguments = (
        inputs.x,
        sums,
        counters,
        inputs.alpha,
        inputs.bias,
        *results(inputs, out),
        *norm_of(inputs),
        *(None,) * 3,
    )
    return Launch(read_kernel, tiles.read, (inputs.x.shape[:-2].numel(),), arguments)


def _few_launches(inputs: Inputs, out: Outputs, tiles: _Tiles) -> list[Launch]:
    x, tokens = inputs.x, inputs.x.shape[:-2].numel()
    strips, groups = tiles.project.constants["STRIPS"], cdiv(tokens, tiles.project.constants["BLOCK_TOKENS"])
    [sums] = scratch(x, tokens * strips * GROUP)
    project = (x, None, inputs.phi, inputs.gamma, sums, None, tokens, groups)
    launch = Launch(project_strip_kernel, tiles.project, (strips * groups,), project)
    return [launch, _read(inputs, out, tiles, sums, None)]


def _sources(spec: Spec, tiles: _Tiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    weights = "*bf16" if tiles.project.constants["FORM"] == "bf16x3" else wide
    project = (x, weights, None, None, wide, "*i32", "i32", "i32")
    return [
        weights_source(spec, tiles.weights, counted=True),
        Source(project_strip_kernel, tiles.project, project),
        _read_source(spec, tiles, "*i32"),
    ]


def _read_source(spec: Spec, tiles: _Tiles, counters: str | None) -> Source:
    x, wide = POINTERS[spec.dtype], "*fp32"
    types = (x, wide, counters, wide, wide, *result_types(spec), *norm_types(spec), *(None,) * 3)
    return Source(read_kernel, tiles.read, types)


def _few_sources(spec: Spec, tiles: _Tiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    project = (x, None, wide, wide if spec.gamma else None, wide, None, "i32", "i32")
    return [Source(project_strip_kernel, tiles.project, project), _read_source(spec, tiles, None)]


FORWARD = Kernel(project_strip_kernel, _config, _launches, _sources, limit, most_interpreted=MOST_INTERPRETED)
_FEW = (_few_launches, _few_sources, limit)
FEW = Kernel(project_strip_kernel, few_config, *_FEW, most_interpreted=MOST_INTERPRETED)
WIDE = Kernel(project_strip_kernel, _wide_config, *_FEW, most_interpreted=MOST_INTERPRETED)  # for ``fastest``
