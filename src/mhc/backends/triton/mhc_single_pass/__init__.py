"""``mhc_single_pass``, with or without fp8: launches of ``mhc_post``, a variant of ``mhc_pre`` and the norm in turn.

``variants.toml`` chooses among the variants of ``mhc_coefficients``. ``overlapped`` and ``few`` have the norm in their
last launch. The kernels of ``mhc_pre`` read with the weights
that are given, and backward they add the gradient that the streams have from elsewhere, so no gradient of the streams
is written and read again but the sum.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.reading import ReadingBackward
from mhc.backends.triton import mhc_coefficients, mhc_post
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch, token_grid
from mhc.backends.triton.mhc_post.backward import mhc_post_backward_kernel
from mhc.backends.triton.mhc_post.forward import mhc_post_kernel
from mhc.backends.triton.mhc_pre.gradients import chunks_of
from mhc.backends.triton.mhc_pre.tensors import Norm, NormedReading, has_powers, norm_types
from mhc.backends.triton.mhc_single_pass.kernels import (
    norm_backward_kernel,
    norm_kernel,
    norm_weight_kernel,
    norm_weight_sums_kernel,
)
from mhc.ops.mhc_coefficients import MhcCoefficientsGrads, MhcCoefficientsOutputs
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs, MhcPostSpec
from mhc.ops.mhc_single_pass import (
    MhcSinglePassBackwardInputs,
    MhcSinglePassGrads,
    MhcSinglePassInputs,
    MhcSinglePassOutputs,
)
from mhc.ops.mhc_single_pass import MhcSinglePassSpec as Spec
from mhc.ops.mhc_single_pass_fp8 import MhcSinglePassFp8Inputs, MhcSinglePassFp8Outputs, MhcSinglePassFp8Spec

_WARPS = 4
_NORMALISE = ("overlapped", "few")  # variants of mhc_pre


class _Tiles(NamedTuple):
    """The tiles of the parts; ``weight`` and ``sums`` are for the gradient of the norm's weight, in the backward."""

    post: Any
    pre: Any
    norm: Config
    weight: Config | None = None
    sums: Config | None = None


def _post_spec(spec: Spec) -> MhcPostSpec:
    return MhcPostSpec(spec.streams, spec.hidden, spec.dtype)


def _norm_config(spec: Spec, target: GPUTarget | None, **constants: float) -> Config:
    """Decide the tiles of the norm: as many rows as warps, so that no sum over columns leaves a warp."""
    if target is None:
        tokens, hidden, compiler = 128, min(1024, triton.next_power_of_2(spec.hidden)), {}
    else:
        tokens, hidden, compiler = _WARPS, 8 * target.warp_size, options(_WARPS)
    return Config({"HIDDEN": spec.hidden, **constants, "BLOCK_TOKENS": tokens, "BLOCK_HIDDEN": hidden}, compiler)


def _config(pre: Kernel, spec: Spec, target: GPUTarget | None) -> _Tiles:
    post = mhc_post.FORWARD.configure(_post_spec(spec), target)
    return _Tiles(
        post, pre.configure(spec, target), _norm_config(spec, target, NORM_EPS=spec.norm_eps, POWERS=has_powers(spec))
    )


def _launches(
    pre: Kernel,
    normalises: bool,
    inputs: MhcSinglePassInputs | MhcSinglePassFp8Inputs,
    out: MhcSinglePassOutputs | MhcSinglePassFp8Outputs,
    tiles: _Tiles,
) -> list[Launch]:
    tokens = inputs.x.shape[:-2].numel()
    reading = NormedReading(out.out, *inputs[5:9], *inputs[10:14])
    reading.pre, reading.read = inputs.pre, out.read
    reading.norm = Norm(inputs.norm_weight, out.h_in, out.s, getattr(out, "scale", None))
    made = MhcCoefficientsOutputs(out.next_h_pre, out.next_h_post, out.next_logits, out.m, out.r)
    launches = [
        *mhc_post.FORWARD.launches(MhcPostInputs(*inputs[:4]), MhcPostOutputs(out.out), tiles.post),
        *pre.launches(reading, made, tiles.pre),
    ]
    norm = (out.read, *reading.norm, tokens)
    return (
        launches if normalises else [*launches, Launch(norm_kernel, tiles.norm, token_grid(tokens, tiles.norm), norm)]
    )


def _sources(pre: Kernel, normalises: bool, spec: Spec, tiles: _Tiles) -> list[Source]:
    sources = [*mhc_post.FORWARD.sources(_post_spec(spec), tiles.post), *pre.sources(spec, tiles.pre)]
    norm = (POINTERS[spec.dtype], *norm_types(spec), "i32")
    return sources if normalises else [*sources, Source(norm_kernel, tiles.norm, norm)]


def _backward_config(pre: Kernel, spec: Spec, target: GPUTarget | None) -> _Tiles:
    norm = _norm_config(spec, target)
    rows, columns = (512, 1024) if target is None else (16, 128)
    tile = {"HIDDEN": spec.hidden, "BLOCK_TOKENS": rows, "BLOCK_HIDDEN": columns}
    sums = {"HIDDEN": spec.hidden, "BLOCK": columns}
    post = mhc_post.BACKWARD.configure(_post_spec(spec), target)
    return _Tiles(post, pre.configure(spec, target), norm, Config(tile, norm.options), Config(sums, norm.options))


def _backward_launches(
    pre: Kernel, inputs: MhcSinglePassBackwardInputs, out: MhcSinglePassGrads, tiles: _Tiles
) -> list[Launch]:
    tokens, needs_post = inputs.x.shape[:-2].numel(), tuple(inputs.needs[:4])
    launches = _norm_weight_launches(inputs, out, tiles)
    grad_read = torch.empty_like(inputs.read)
    norm = (inputs.read, inputs.norm_weight, inputs.s, inputs.grad_h_in, grad_read, tokens)
    launches.append(Launch(norm_backward_kernel, tiles.norm, token_grid(tokens, tiles.norm), norm))
    between = torch.empty_like(inputs.x) if any(needs_post) else None
    needs = (between is not None, *inputs.needs[5:9])
    incoming = inputs[16:19]
    reading = ReadingBackward(inputs.out, *inputs[5:9], inputs.m, inputs.r, *incoming, *inputs[20:24], needs)
    reading.pre, reading.grad_read, reading.grad_pre, reading.added = inputs.pre, grad_read, out.pre, inputs.grad_out
    launches += pre.launches(reading, MhcCoefficientsGrads(between, *out[5:9]), tiles.pre)
    if between is not None:
        post = MhcPostBackwardInputs(*inputs[:4], between, needs_post)
        launches += mhc_post.BACKWARD.launches(post, MhcPostGrads(*out[:4]), tiles.post)
    return launches


def _norm_weight_launches(inputs: MhcSinglePassBackwardInputs, out: MhcSinglePassGrads, tiles: _Tiles) -> list[Launch]:
    """Return the launches for the gradient of the norm's weight, where it is asked for."""
    if out.norm_weight is None or tiles.weight is None or tiles.sums is None:
        return []
    tokens, hidden = inputs.read.shape[:-1].numel(), inputs.read.shape[-1]
    constants = tiles.weight.constants
    blocks = cdiv(hidden, constants["BLOCK_HIDDEN"])
    chunk, count = chunks_of(tokens, blocks, constants["BLOCK_TOKENS"])
    [chunks] = scratch(inputs.x, count * hidden)
    weight = (inputs.read, inputs.s, inputs.grad_h_in, chunks, tokens, chunk)
    return [
        Launch(norm_weight_kernel, tiles.weight, (blocks, count), weight),
        Launch(norm_weight_sums_kernel, tiles.sums, (blocks,), (chunks, out.norm_weight, count)),
    ]


def _backward_sources(pre: Kernel, spec: Spec, tiles: _Tiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    assert tiles.weight is not None
    assert tiles.sums is not None
    return [
        Source(norm_weight_kernel, tiles.weight, (x, wide, x, wide, "i32", "i32")),
        Source(norm_weight_sums_kernel, tiles.sums, (wide, wide, "i32")),
        Source(norm_backward_kernel, tiles.norm, (x, wide, wide, x, x, "i32")),
        *pre.sources(spec, tiles.pre),
        *mhc_post.BACKWARD.sources(_post_spec(spec), tiles.post),
    ]


def _limit(pre: Kernel, spec: Spec, target: GPUTarget | None) -> str | None:
    """Return why the forward with this variant of ``mhc_pre`` does not run ``spec`` on ``target``."""
    if isinstance(spec, MhcSinglePassFp8Spec) and target is not None and target.backend == "cuda" and target.arch < 89:
        return "Triton has fp8 (e4m3) on NVIDIA from sm_89 on"
    return pre.limit(spec, target) if pre.limit else None


def _forward(name: str, pre: Kernel) -> Kernel:
    """Return the forward with a variant of ``mhc_pre``."""
    normalises = name in _NORMALISE
    return Kernel(
        mhc_post_kernel,
        functools.partial(_config, pre),
        functools.partial(_launches, pre, normalises),
        functools.partial(_sources, pre, normalises),
        functools.partial(_limit, pre),
        most_interpreted=pre.most_interpreted,
    )


def _backward(pre: Kernel) -> Kernel:
    """Return the backward with a variant of ``mhc_pre``."""
    parts = [functools.partial(part, pre) for part in (_backward_config, _backward_launches, _backward_sources)]
    return Kernel(mhc_post_backward_kernel, *parts, pre.limit)


FORWARD = {name: _forward(name, kernel) for name, kernel in mhc_coefficients.FORWARD.items()}
BACKWARD = {name: _backward(kernel) for name, kernel in mhc_coefficients.BACKWARD.items()}
