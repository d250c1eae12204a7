"""The launches that every backward of ``mhc_pre`` and ``mhc_head`` begins and ends with.

They give the coefficients of each token first, and add up the sums for phi, gamma, alpha and bias last. What is
between them is the backward's own.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.reading import BackwardInputs, Grads, Spec, incoming
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch
from mhc.backends.triton.mhc_pre.backward import coefficients_kernel
from mhc.backends.triton.mhc_pre.backward_sums import sums_kernel
from mhc.backends.triton.mhc_pre.tensors import incoming_types
from mhc.ops.mhc_head import MhcHeadSpec

# Programs to aim at: some for each of the multiprocessors of a large GPU. It bounds the chunks, and with them the
# memory for their sums.
_PROGRAMS = 1024

_WIDE = 2048  # columns of x from which on the coefficients are computed without loads ahead

_STEPS_TO_BEGIN = 2  # a program begins and ends in about the time of so many steps

GROUP = 32  # the mixes of c are padded to a multiple of as many: tiles of ``tl.dot``


class Configs(NamedTuple):
    """The configurations of the two device functions."""

    coefficients: Config
    sums: Config


class Scratch(NamedTuple):
    """The tensors between the launches; ``chunks`` is None where neither phi's nor gamma's gradient is asked for."""

    coefficients: torch.Tensor
    scales: torch.Tensor
    partial: torch.Tensor
    chunks: torch.Tensor | None
    weights: torch.Tensor


def padded(mixes: int) -> int:
    """Return the columns of the coefficients."""
    return cdiv(mixes, GROUP) * GROUP


def post_scale(spec: Spec) -> float:
    """Return the constant of h_post, which ``mhc_head`` has not."""
    return 1.0 if isinstance(spec, MhcHeadSpec) else spec.post_scale


def configure(spec: Spec, target: GPUTarget | None, form: str, weights: Config | None = None) -> Configs:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None.

    ``weights`` are the tiles of the weights, where the backward needs some.
    """
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, hidden, columns, partial, compiler = 512, 1024, 1024, 1024, {}
    else:
        # A warp has a token of its own, and the sums of up to four streams in a pass: no sum leaves it.
        tokens, hidden, columns, partial, compiler = 4, 8 * target.warp_size, 64, 4096, options(4)
    # On an H200 loads ahead take 11.6 µs in place of 14.3 at hidden 1280, and no less time from 2560 on.
    ahead = target is not None and target.backend == "cuda" and target.arch == 90 and spec.hidden < _WIDE
    made = {"LINE": 0, "BLOCK_MIXES": 1, "BLOCK": 1} if weights is None else weights.constants
    constants = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "MIXES": spec.mixes,
        "PADDED": padded(spec.mixes),
        "PRE_EPS": spec.pre_eps,
        "POST_SCALE": post_scale(spec),
        "FORM": form,
        "BLOCK_TOKENS": tokens,
        "BLOCK_MIXES": triton.next_power_of_2(padded(spec.mixes)),
        "BLOCK_HIDDEN": min(hidden, triton.next_power_of_2(spec.hidden)),
        "STAGES": 3 if ahead else 1,
        "LINE": made["LINE"],
        "TILE_MIXES": made["BLOCK_MIXES"],
        "TILE": made["BLOCK"],
    }
    sums = {"STREAMS": spec.streams, "WIDTH": spec.width, "MIXES": spec.mixes}
    blocks = {"BLOCK_MIXES": 8, "BLOCK": columns, "BLOCK_PARTIAL": partial}
    return Configs(Config(constants, compiler), Config({**sums, **blocks}, compiler))


def chunks_of(tokens: int, programs: int, rows: int) -> tuple[int, int]:
    """Return the tokens of a chunk, a multiple of ``rows``, and the number of chunks.

    ``programs`` work on one chunk, each of them on ``rows`` tokens at a time.
    """
    count = min(cdiv(tokens, 8 * rows), max(1, _PROGRAMS // programs))
    chunk = cdiv(cdiv(tokens, count), rows) * rows
    return chunk, cdiv(tokens, chunk)


@functools.lru_cache(maxsize=1024)
def even_chunks_of(tokens: int, programs: int, rows: int, places: int) -> tuple[int, int]:
    """Return the same for a GPU that runs ``places`` programs at a time, so that few of these places stay empty.

    Of each number of chunks this estimates which part of the time a place does its work: not in the last turn of the
    grid, nor for tokens that the last chunk lacks, nor while a program begins and ends.
    """

    def work(count: int) -> float:
        steps = cdiv(cdiv(tokens, count), rows)
        turns = cdiv(programs * cdiv(tokens, steps * rows), places)
        return programs * tokens / (turns * places * (steps + _STEPS_TO_BEGIN) * rows)

    most = min(cdiv(tokens, 4 * rows), max(1, 2 * _PROGRAMS // programs))
    steps = cdiv(cdiv(tokens, max(range(1, most + 1), key=work)), rows)
    return steps * rows, cdiv(tokens, steps * rows)


def added(inputs: BackwardInputs, out: Grads) -> torch.Tensor | None:
    """Return the gradient to add to the gradient of x, or None where there is none."""
    return getattr(inputs, "added", None) if out.x is not None else None


def scratch_of(inputs: BackwardInputs, out: Grads, tiles: Configs, chunks: int, weights: int = 0) -> Scratch:
    """Return uninitialised scratch for so many chunks, and for so many elements of weights."""
    tokens, constants = inputs.x.shape[:-2].numel(), tiles.coefficients.constants
    streams, mixes = constants["STREAMS"], constants["MIXES"]
    programs = cdiv(tokens, constants["BLOCK_TOKENS"])
    needed = out.phi is not None or out.gamma is not None
    split = constants["FORM"] == "bf16x3"
    sizes = (
        cdiv((3 if split else 2) * tokens * constants["PADDED"], 2),
        tokens * (streams + 1),
        2 * mixes * programs,
        chunks * mixes * streams * constants["HIDDEN"] if needed else 0,
        weights,
    )
    coefficients, scales, partial, sums, line = scratch(inputs.x, *sizes)
    if split:
        coefficients = coefficients.view(torch.bfloat16)
    return Scratch(coefficients, scales, partial, sums if needed else None, line)


def first_launch(
    inputs: BackwardInputs, tiles: Configs, between: Scratch, weights: torch.Tensor | None = None
) -> Launch:
    """Return the launch for the coefficients, and for the weights where there is room for them."""
    tokens, constants = inputs.x.shape[:-2].numel(), tiles.coefficients.constants
    given = (inputs.x, inputs.alpha, inputs.bias, inputs.m, inputs.r, *incoming(inputs))
    arguments = (*given, *between[:3], inputs.phi, inputs.gamma, weights, tokens)
    programs = cdiv(tokens, constants["BLOCK_TOKENS"])
    if weights is not None:
        programs += constants["PADDED"] // constants["TILE_MIXES"] * cdiv(constants["LINE"], constants["TILE"])
    return Launch(coefficients_kernel, tiles.coefficients, (programs,), arguments)


def last_launches(inputs: BackwardInputs, out: Grads, tiles: Configs, between: Scratch, count: int) -> list[Launch]:
    """Return the launch for the gradients of phi, gamma, alpha and bias, where one of them is asked for."""
    constants = tiles.sums.constants
    programs = cdiv(inputs.x.shape[:-2].numel(), tiles.coefficients.constants["BLOCK_TOKENS"])
    blocks = 0 if between.chunks is None else cdiv(constants["WIDTH"], constants["BLOCK"])
    needed = out.alpha is not None or out.bias is not None
    results = constants["MIXES"] + inputs.alpha.shape[0] if needed else 0
    if blocks + results == 0:
        return []
    grads = (out.phi, out.gamma, out.alpha, out.bias)
    arguments = (inputs.phi, inputs.gamma, between.chunks, between.partial, *grads, count, programs, blocks)
    return [Launch(sums_kernel, tiles.sums, (blocks + results,), arguments)]


def sources(spec: Spec, tiles: Configs, weights: str | None = None) -> tuple[Source, Source]:
    """Return the device functions that come first and last, as all gradients together need them.

    ``weights`` is the type of the weights' pointer, where the backward needs some.
    """
    x, wide = POINTERS[spec.dtype], "*fp32"
    gamma = wide if spec.gamma else None
    coefficients = "*bf16" if tiles.coefficients.constants["FORM"] == "bf16x3" else wide
    scratch = (coefficients, wide, wide)
    first = (x, *(wide,) * 4, *incoming_types(spec), *scratch, wide, gamma, weights, "i32")
    last = (wide, gamma, wide, wide, wide, gamma, wide, wide, "i32", "i32", "i32")
    return Source(coefficients_kernel, tiles.coefficients, first), Source(sums_kernel, tiles.sums, last)
