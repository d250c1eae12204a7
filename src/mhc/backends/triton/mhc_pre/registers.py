"""The variant ``registers`` of ``mhc_pre`` and ``mhc_head``: the sums of all mixes in registers, for few mixes."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.reading import BackwardInputs, Grads, Inputs, Outputs, Spec, incoming, results
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, token_grid
from mhc.backends.triton.mhc_pre import gradients
from mhc.backends.triton.mhc_pre.backward import stream_kernel
from mhc.backends.triton.mhc_pre.forward import mhc_pre_kernel
from mhc.backends.triton.mhc_pre.gradients import padded, post_scale
from mhc.backends.triton.mhc_pre.tensors import incoming_types, result_types
from mhc.ops.mhc_head import MhcHeadSpec

MOST_MIXES = 24  # of 4 streams; more spill, and the time to compile grows faster than their number


def _limit(spec: Spec, target: GPUTarget | None) -> str | None:
    if spec.mixes > MOST_MIXES:
        return f"there are {spec.mixes} mixes; registers hold the sums of {MOST_MIXES}"
    return None


@functools.cache
def _config(spec: Spec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None.

    The tiles do not depend on the number of tokens: one kernel serves every batch, and a token's sums have the same
    order in every batch.
    """
    mixes = spec.mixes
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, vector, width, hidden, compiler = 512, 4, 1024, 1024, {}
    else:
        # A thread keeps, of every token of its block, some of x and a partial sum of every mix: up to 128 registers.
        tokens = next(tokens for tokens in (16, 8, 4, 2, 1) if tokens * (mixes + 4) <= 128 or tokens == 1)
        # As many neighbours as one load of 16 bytes brings of phi, in rows that begin on a multiple of as many.
        vector = math.gcd(spec.width, 4)
        warps = 4
        threads = warps * target.warp_size
        width, hidden = threads * vector, threads * 16 // tokens
        compiler = options(warps)
        if target.backend == "cuda":
            # Left to itself, ptxas rather spills a few than go above 168.
            compiler["maxnreg"] = 255
    constants = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "MIXES": mixes,
        "NORM_EPS": spec.norm_eps,
        "PRE_EPS": spec.pre_eps,
        "POST_SCALE": post_scale(spec),
        "BLOCK_TOKENS": tokens,
        "BLOCK_WIDTH": width,
        "BLOCK_HIDDEN": max(vector, min(hidden, triton.next_power_of_2(spec.hidden))),
        "VECTOR": vector,
    }
    return Config(constants, compiler)


def _launches(inputs: Inputs, out: Outputs, tiles: Config) -> list[Launch]:
    tokens = inputs.x.shape[:-2].numel()
    return [Launch(mhc_pre_kernel, tiles, token_grid(tokens, tiles), (*inputs[:5], *results(inputs, out), tokens))]


def _sources(spec: Spec, tiles: Config) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    types = (x, wide, wide, wide, wide if spec.gamma else None, *result_types(spec), "i32")
    return [Source(mhc_pre_kernel, tiles, types)]


class _Tiles(NamedTuple):
    shared: gradients.Configs
    stream: Config


@functools.cache
def _backward_config(spec: Spec, target: GPUTarget | None) -> _Tiles:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    mixes = spec.mixes
    if target is None:
        tokens, rows, vector, columns, compiler = 512, 1, 1, 1024, {}
    else:
        # A thread keeps phi and a sum of every mix of its columns: up to 160 registers.
        vector = math.gcd(spec.hidden, 4 if mixes <= 12 else 2)
        tokens, rows, columns = 1, 4, 4 * target.warp_size * vector
        # Left to itself, ptxas rather spills than go above 168.
        compiler = options(4) | ({"maxnreg": 255} if target.backend == "cuda" else {})
    constants = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "MIXES": mixes,
        "PADDED": padded(mixes),
        "BLOCK_TOKENS": tokens,
        "ROWS": rows,
        "BLOCK_HIDDEN": max(vector, min(columns, triton.next_power_of_2(spec.hidden))),
        "VECTOR": vector,
        "MASKED": target is not None and target.backend == "cuda",
    }
    return _Tiles(gradients.configure(spec, target, "ieee"), Config(constants, compiler))


def _backward_launches(inputs: BackwardInputs, out: Grads, tiles: _Tiles) -> list[Launch]:
    tokens, (streams, hidden) = inputs.x.shape[:-2].numel(), inputs.x.shape[-2:]
    constants = tiles.stream.constants
    blocks = streams * cdiv(hidden, constants["BLOCK_HIDDEN"])
    chunk, count = gradients.chunks_of(tokens, blocks, constants["BLOCK_TOKENS"] * constants["ROWS"])
    between = gradients.scratch_of(inputs, out, tiles.shared, count)
    launches = [gradients.first_launch(inputs, tiles.shared, between)]
    if out.x is not None or between.chunks is not None:
        middle = (inputs.x, inputs.phi, inputs.gamma, incoming(inputs).grad_h_in, between.coefficients, between.scales)
        arguments = (*middle, gradients.added(inputs, out), out.x, between.chunks, tokens, chunk)
        launches.append(Launch(stream_kernel, tiles.stream, (blocks, count), arguments))
    return launches + gradients.last_launches(inputs, out, tiles.shared, between, count)


def _backward_sources(spec: Spec, tiles: _Tiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    first, last = gradients.sources(spec, tiles.shared)
    read = incoming_types(spec).grad_h_in
    added = None if isinstance(spec, MhcHeadSpec) or read is None else x
    types = (x, wide, wide if spec.gamma else None, read, wide, wide, added, x, wide, "i32", "i32")
    return [first, Source(stream_kernel, tiles.stream, types), last]


FORWARD = Kernel(mhc_pre_kernel, _config, _launches, _sources, _limit)
BACKWARD = Kernel(stream_kernel, _backward_config, _backward_launches, _backward_sources, _limit, adds_to_first=True)
