"""``expand`` and its gradient in Triton."""

from __future__ import annotations

import functools

from triton.backends.compiler import GPUTarget

from mhc.backends.triton.expand.backward import expand_backward_kernel
from mhc.backends.triton.expand.forward import expand_kernel
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, elementwise, elementwise_grid, options
from mhc.ops.expand import ExpandBackwardInputs, ExpandGrads, ExpandInputs, ExpandOutputs, ExpandSpec


@functools.cache
def _config(spec: ExpandSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    tiles = elementwise(spec.streams, spec.hidden, target)
    return Config({"STREAMS": spec.streams, "HIDDEN": spec.hidden, **tiles}, {} if target is None else options(4))


def _launches(inputs: ExpandInputs, out: ExpandOutputs, tiles: Config) -> list[Launch]:
    tokens, hidden = inputs.x.shape[:-1].numel(), inputs.x.shape[-1]
    return [Launch(expand_kernel, tiles, elementwise_grid(tokens, hidden, tiles), (inputs.x, out.out, tokens))]


def _sources(spec: ExpandSpec, tiles: Config) -> list[Source]:
    x = POINTERS[spec.dtype]
    return [Source(expand_kernel, tiles, (x, x, "i32"))]


def _backward_launches(inputs: ExpandBackwardInputs, out: ExpandGrads, tiles: Config) -> list[Launch]:
    shape = inputs.grad_out.shape
    tokens, hidden = shape[:-2].numel(), shape[-1]
    grid = elementwise_grid(tokens, hidden, tiles)
    return [Launch(expand_backward_kernel, tiles, grid, (inputs.grad_out, out.x, tokens))]


def _backward_sources(spec: ExpandSpec, tiles: Config) -> list[Source]:
    x = POINTERS[spec.dtype]
    return [Source(expand_backward_kernel, tiles, (x, x, "i32"))]


FORWARD = Kernel(expand_kernel, _config, _launches, _sources)
BACKWARD = Kernel(expand_backward_kernel, _config, _backward_launches, _backward_sources)
