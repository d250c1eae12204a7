"""The variant ``joined`` of ``mhc_post_pre``: for few tokens, the write and the next projection in one launch.

Its sums have another order than those of ``in_turn`` (:mod:`mhc.backends.in_turn`), so a token has other bits than
among many. ``triton`` promises the same bits and never chooses it; ``fastest`` does.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.reading import results
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch
from mhc.backends.triton.mhc_post_pre.kernels import write_and_project_kernel
from mhc.backends.triton.mhc_pre.forward_overlapped import read_kernel
from mhc.backends.triton.mhc_pre.overlapped import MOST_INTERPRETED, few_config, limit
from mhc.backends.triton.mhc_pre.tensors import norm_of, norm_types, result_types
from mhc.ops.mhc_post_pre import MhcPostPreInputs, MhcPostPreOutputs
from mhc.ops.mhc_post_pre import MhcPostPreSpec as Spec

_WIDE = 4096  # columns of a stream from which on strips are wider, and eight warps read


class _Tiles(NamedTuple):
    """The tiles of both launches."""

    project: Config
    read: Config


@functools.cache
def _config(spec: Spec, target: GPUTarget | None) -> _Tiles:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    few = few_config(spec, target)
    compiler, columns, warps = few.read.options, 256, {}
    if target is not None:
        columns, warps = (64, options(8)) if spec.hidden >= _WIDE else (32, {})
    strips = cdiv(spec.hidden, columns)
    shared = {name: few.read.constants[name] for name in ("STREAMS", "HIDDEN", "MIXES", "PADDED", "BESIDE")}
    project = shared | {"STRIPS": strips, "BLOCK_HIDDEN": columns}
    read = few.read.constants | {"STRIPS": strips, "BLOCK_STRIPS": triton.next_power_of_2(strips), "SPLIT": 1}
    return _Tiles(Config(project, compiler), Config(read, compiler | warps))


def _launches(inputs: MhcPostPreInputs, out: MhcPostPreOutputs, tiles: _Tiles) -> list[Launch]:
    tokens, constants = inputs.x.shape[:-2].numel(), tiles.project.constants
    pre = inputs.pre(out.out)
    [sums] = scratch(inputs.x, tokens * constants["STRIPS"] * constants["PADDED"])
    project = (*inputs.post, pre.phi, pre.gamma, out.out, sums, tokens)
    read = (inputs.x, sums, None, pre.alpha, pre.bias, *results(pre, out.pre), *norm_of(pre), *inputs[1:4])
    return [
        Launch(write_and_project_kernel, tiles.project, (constants["STRIPS"], tokens), project),
        Launch(read_kernel, tiles.read, (tokens,), read),
    ]


def _sources(spec: Spec, tiles: _Tiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    written = (x, wide, wide)
    project = (x, *written, wide, wide if spec.gamma else None, x, wide, "i32")
    read = (x, wide, None, wide, wide, *result_types(spec), *norm_types(spec), *written)
    return [Source(write_and_project_kernel, tiles.project, project), Source(read_kernel, tiles.read, read)]


JOINED = Kernel(write_and_project_kernel, _config, _launches, _sources, limit, most_interpreted=MOST_INTERPRETED)
