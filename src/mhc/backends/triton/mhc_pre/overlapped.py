"""The variant ``overlapped`` of ``mhc_pre`` and ``mhc_head``: x in bf16, read for h_in while it is in the cache."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch
from mhc.backends.triton.mhc_pre.forward_overlapped import COUNTER, project_strip_kernel, read_kernel
from mhc.backends.triton.mhc_pre.gradients import GROUP, Spec, post_scale
from mhc.backends.triton.mhc_pre.products import weights_config, weights_elements, weights_launch, weights_source
from mhc.ops.mhc_head import MhcHeadInputs, MhcHeadOutputs
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec

_PROGRAMS = 132  # of the projection: one for each multiprocessor of an H200
_MOST_WIDTH = 32768  # columns of x that a program of four warps has in registers
_MOST_INTERPRETED = 16  # tokens: each is a program of its own


class _Tiles(NamedTuple):
    """``groups`` is the most programs that share the tokens of a strip."""

    groups: int
    weights: Config
    project: Config
    read: Config


def _limit(spec: Spec, target: GPUTarget | None) -> str | None:
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
        compiler, beside = {}, {}
    else:
        form, steps, tokens, tile = "bf16x3", 2, 64, 128
        compiler, beside = options(4), options(4) | {"launch_pdl": True}
    strips = cdiv(spec.width, steps * tile)
    weights = weights_config(form, spec, target, strips * steps * tile)
    shared = {"MIXES": spec.mixes, "PADDED": GROUP, "STRIPS": strips}
    project = {
        "WIDTH": spec.width,
        "LINE": weights.constants["LINE"],
        "FORM": form,
        "BESIDE": target is not None,
        "STEPS": steps,
        "PARTS": 1 if target is None else 4,  # a power of two: three, and zeros
        "BLOCK_TOKENS": tokens,
        "BLOCK_WIDTH": tile,
        "STAGES": 3,
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
    }
    groups = 2 if target is None else max(1, _PROGRAMS // strips)
    return _Tiles(groups, weights, Config({**shared, **project}, compiler), Config({**shared, **read}, beside))


def _launches(inputs: MhcPreInputs | MhcHeadInputs, out: MhcPreOutputs | MhcHeadOutputs, tiles: _Tiles) -> list[Launch]:
    tokens = inputs.x.shape[:-2].numel()
    strips, rows = tiles.project.constants["STRIPS"], tiles.project.constants["BLOCK_TOKENS"]
    blocks = cdiv(tokens, rows)
    h_in, *mixed = out if isinstance(out, MhcPreOutputs) else (out.out, None, None, out.m, out.r)
    count = blocks * COUNTER.value
    room, sums, counted = scratch(inputs.x, weights_elements(tiles.weights), tokens * strips * GROUP, count)
    counters = counted.view(torch.int32)
    weights, first = weights_launch(inputs, tiles.weights, room, counters)
    groups = min(blocks, tiles.groups)
    project = (inputs.x, weights, sums, counters, tokens, groups)
    read = (inputs.x, sums, counters, inputs.alpha, inputs.bias, h_in, *mixed)
    return [
        first,
        Launch(project_strip_kernel, tiles.project, (strips * groups,), project),
        Launch(read_kernel, tiles.read, (tokens,), read),
    ]


def _sources(spec: Spec, tiles: _Tiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    weights = "*bf16" if tiles.project.constants["FORM"] == "bf16x3" else wide
    coefficients = (wide, wide) if isinstance(spec, MhcPreSpec) else (None, None)
    return [
        weights_source(spec, tiles.weights, counted=True),
        Source(project_strip_kernel, tiles.project, (x, weights, wide, "*i32", "i32", "i32")),
        Source(read_kernel, tiles.read, (x, wide, "*i32", wide, wide, x, *coefficients, wide, wide)),
    ]


FORWARD = Kernel(project_strip_kernel, _config, _launches, _sources, _limit, most_interpreted=_MOST_INTERPRETED)
