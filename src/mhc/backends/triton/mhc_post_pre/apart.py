"""The variant ``apart`` of ``mhc_post_pre``: the launches of ``mhc_post`` and of ``mhc_pre`` in turn."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from triton.backends.compiler import GPUTarget

from mhc.backends.triton import mhc_post, mhc_pre
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import Launch, Source
from mhc.backends.triton.mhc_post.backward import mhc_post_backward_kernel
from mhc.backends.triton.mhc_post.forward import mhc_post_kernel
from mhc.backends.triton.mhc_pre.registers import MOST_MIXES
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostOutputs, MhcPostSpec
from mhc.ops.mhc_post_pre import MhcPostPreBackwardInputs, MhcPostPreGrads, MhcPostPreInputs, MhcPostPreOutputs
from mhc.ops.mhc_post_pre import MhcPostPreSpec as Spec
from mhc.ops.mhc_pre import MhcPreAddingInputs, MhcPreGrads


class _Tiles(NamedTuple):
    """The tiles of both operators, and the kernel of ``mhc_pre`` that they belong to."""

    post: Any
    pre: Any
    kernel: Kernel


def _pre_kernel(kernels: dict[str, Kernel], spec: Spec) -> Kernel:
    return kernels["registers" if spec.mixes <= MOST_MIXES else "products"]


def _post_spec(spec: Spec) -> MhcPostSpec:
    return MhcPostSpec(spec.streams, spec.hidden, spec.dtype)


@functools.cache
def _config(spec: Spec, target: GPUTarget | None) -> _Tiles:
    kernel = _pre_kernel(mhc_pre.FORWARD, spec)
    post = mhc_post.FORWARD["tiles"].configure(_post_spec(spec), target)
    return _Tiles(post, kernel.configure(spec, target), kernel)


def _launches(inputs: MhcPostPreInputs, out: MhcPostPreOutputs, tiles: _Tiles) -> list[Launch]:
    return [
        *mhc_post.FORWARD["tiles"].launches(inputs.post, MhcPostOutputs(out.out), tiles.post),
        *tiles.kernel.launches(inputs.pre(out.out), out.pre, tiles.pre),
    ]


def _sources(spec: Spec, tiles: _Tiles) -> list[Source]:
    post = mhc_post.FORWARD["tiles"].sources(_post_spec(spec), tiles.post)
    return [*post, *tiles.kernel.sources(spec, tiles.pre)]


@functools.cache
def _backward_config(spec: Spec, target: GPUTarget | None) -> _Tiles:
    kernel = _pre_kernel(mhc_pre.BACKWARD, spec)
    post = mhc_post.BACKWARD.configure(_post_spec(spec), target)
    return _Tiles(post, kernel.configure(spec, target), kernel)


def _backward_launches(inputs: MhcPostPreBackwardInputs, out: MhcPostPreGrads, tiles: _Tiles) -> list[Launch]:
    """Return the launches of both ways back; the gradient of the streams between them is in fp32.

    Rounded to bf16 it would spoil the gradients of h_post and h_res, which are in fp32.
    """
    needed = inputs.needs_out
    between = torch.empty(inputs.x.shape, dtype=torch.float32, device=inputs.x.device) if needed else None
    pre = MhcPreAddingInputs.of(inputs.pre, inputs.grad_out) if needed else inputs.pre
    launches = tiles.kernel.launches(pre, MhcPreGrads(between, *out[4:]), tiles.pre)
    if between is None:
        return list(launches)
    post = MhcPostBackwardInputs(*inputs[:4], between, tuple(inputs.needs[:4]))
    return [*launches, *mhc_post.BACKWARD.launches(post, MhcPostGrads(*out[:4]), tiles.post)]


def _backward_sources(spec: Spec, tiles: _Tiles) -> list[Source]:
    post = mhc_post.BACKWARD.sources(_post_spec(spec), tiles.post)
    return [
        *(_with_fp32(source, "grad_x") for source in tiles.kernel.sources(spec, tiles.pre)),
        *(_with_fp32(source, "grad_out") for source in post),
    ]


def _with_fp32(source: Source, name: str) -> Source:
    """Return a device function where the argument of this name, if it has one, points to fp32."""
    pairs = zip(source.kernel.arg_names, source.types, strict=False)
    return source._replace(types=tuple("*fp32" if argument == name and type_ else type_ for argument, type_ in pairs))


FORWARD = Kernel(mhc_post_kernel, _config, _launches, _sources)
BACKWARD = Kernel(mhc_post_backward_kernel, _backward_config, _backward_launches, _backward_sources)
