"""The launches of ``mhc_post`` and of a variant of ``mhc_pre`` in turn."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from triton.backends.compiler import GPUTarget

from mhc.backends.triton import mhc_post
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import Launch, Source
from mhc.backends.triton.mhc_post.backward import mhc_post_backward_kernel
from mhc.backends.triton.mhc_post.forward import mhc_post_kernel
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostOutputs, MhcPostSpec
from mhc.ops.mhc_post_pre import MhcPostPreBackwardInputs, MhcPostPreGrads, MhcPostPreInputs, MhcPostPreOutputs
from mhc.ops.mhc_post_pre import MhcPostPreSpec as Spec
from mhc.ops.mhc_pre import MhcPreAddingInputs, MhcPreGrads


class _Tiles(NamedTuple):
    """The tiles of both operators."""

    post: Any
    pre: Any


def _post_spec(spec: Spec) -> MhcPostSpec:
    return MhcPostSpec(spec.streams, spec.hidden, spec.dtype)


def _config(pre: Kernel, spec: Spec, target: GPUTarget | None) -> _Tiles:
    return _Tiles(mhc_post.FORWARD.configure(_post_spec(spec), target), pre.configure(spec, target))


def _launches(pre: Kernel, inputs: MhcPostPreInputs, out: MhcPostPreOutputs, tiles: _Tiles) -> list[Launch]:
    return [
        *mhc_post.FORWARD.launches(inputs.post, MhcPostOutputs(out.out), tiles.post),
        *pre.launches(inputs.pre(out.out), out.pre, tiles.pre),
    ]


def _sources(pre: Kernel, spec: Spec, tiles: _Tiles) -> list[Source]:
    post = mhc_post.FORWARD.sources(_post_spec(spec), tiles.post)
    return [*post, *pre.sources(spec, tiles.pre)]


def _backward_config(pre: Kernel, spec: Spec, target: GPUTarget | None) -> _Tiles:
    return _Tiles(mhc_post.BACKWARD.configure(_post_spec(spec), target), pre.configure(spec, target))


def _backward_launches(
    pre: Kernel, inputs: MhcPostPreBackwardInputs, out: MhcPostPreGrads, tiles: _Tiles
) -> list[Launch]:
    """Return the launches of both ways back; ``mhc_pre`` adds the gradient that the streams have already."""
    if not inputs.needs_out:
        return list(pre.launches(inputs.pre, MhcPreGrads(None, *out[4:]), tiles.pre))
    between = torch.empty_like(inputs.x)
    adding = MhcPreAddingInputs.of(inputs.pre, inputs.grad_out)
    post = MhcPostBackwardInputs(*inputs[:4], between, tuple(inputs.needs[:4]))
    return [
        *pre.launches(adding, MhcPreGrads(between, *out[4:]), tiles.pre),
        *mhc_post.BACKWARD.launches(post, MhcPostGrads(*out[:4]), tiles.post),
    ]


def _backward_sources(pre: Kernel, spec: Spec, tiles: _Tiles) -> list[Source]:
    post = mhc_post.BACKWARD.sources(_post_spec(spec), tiles.post)
    return [*pre.sources(spec, tiles.pre), *post]


def forward(pre: Kernel) -> Kernel:
    """Return the forward with a variant of ``mhc_pre``."""
    parts = [functools.partial(part, pre) for part in (_config, _launches, _sources)]
    return Kernel(mhc_post_kernel, *parts, pre.limit)


def backward(pre: Kernel) -> Kernel:
    """Return the backward with a variant of ``mhc_pre``."""
    parts = [functools.partial(part, pre) for part in (_backward_config, _backward_launches, _backward_sources)]
    return Kernel(mhc_post_backward_kernel, *parts, pre.limit)
