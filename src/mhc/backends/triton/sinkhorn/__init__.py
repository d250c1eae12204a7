"""``sinkhorn`` and its gradient in Triton."""

from __future__ import annotations

import functools

import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import Config, Launch, Source, options, token_grid
from mhc.backends.triton.sinkhorn.backward import sinkhorn_backward_kernel
from mhc.backends.triton.sinkhorn.forward import sinkhorn_kernel
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads, SinkhornInputs, SinkhornOutputs, SinkhornSpec


@functools.cache
def _config(spec: SinkhornSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    padded = triton.next_power_of_2(spec.streams)
    # One warp, so that no sum leaves it, and of each thread a load of 16 bytes; the interpreter wants large tiles.
    tokens = 128 if target is None else max(1, 4 * target.warp_size // padded**2)
    constants = {
        "STREAMS": spec.streams,
        "PADDED": padded,
        "ITERATIONS": spec.iterations,
        "EPS": spec.eps,
        "FORM": spec.form,
        "BLOCK_TOKENS": tokens,
    }
    return Config(constants, {} if target is None else options(1))


def _launches(inputs: SinkhornInputs, out: SinkhornOutputs, tiles: Config) -> list[Launch]:
    tokens = inputs.logits.shape[:-2].numel()
    return [Launch(sinkhorn_kernel, tiles, token_grid(tokens, tiles), (inputs.logits, out.matrix, tokens))]


def _sources(spec: SinkhornSpec, tiles: Config) -> list[Source]:
    return [Source(sinkhorn_kernel, tiles, ("*fp32", "*fp32", "i32"))]


def kept_iterations(later: int, most: int) -> int:
    """Return of how many iterations at once to keep the scales, of ``later`` in all: few parts, and a small rest.

    Every part runs the iterations before it again. The rest is code of its own.
    """
    return min(range(min(most, max(1, later)), 0, -1), key=lambda kept: -(-later // kept) + later % kept)


@functools.cache
def _backward_config(spec: SinkhornSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles as in the forward, and of how many iterations at once to keep the scales."""
    constants, compiler = _config(spec, target)
    # A thread holds that many entries of each matrix, at most so many columns, and of each iteration their scales.
    # The interpreter keeps fewer, so that it goes through all of the code.
    entries = 8 if target is None else constants["BLOCK_TOKENS"] * constants["PADDED"] ** 2 // target.warp_size
    return Config({**constants, "KEPT": kept_iterations(spec.iterations - 1, 80 // max(4, entries))}, compiler)


def _backward_launches(inputs: SinkhornBackwardInputs, out: SinkhornGrads, tiles: Config) -> list[Launch]:
    tokens = inputs.logits.shape[:-2].numel()
    arguments = (inputs.logits, inputs.grad_matrix, out.logits, tokens)
    return [Launch(sinkhorn_backward_kernel, tiles, token_grid(tokens, tiles), arguments)]


def _backward_sources(spec: SinkhornSpec, tiles: Config) -> list[Source]:
    return [Source(sinkhorn_backward_kernel, tiles, ("*fp32", "*fp32", "*fp32", "i32"))]


FORWARD = Kernel(sinkhorn_kernel, _config, _launches, _sources)
BACKWARD = Kernel(sinkhorn_backward_kernel, _backward_config, _backward_launches, _backward_sources)
