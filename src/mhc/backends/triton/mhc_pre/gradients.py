"""The launches that every backward of ``mhc_pre`` and ``mhc_head`` begins and ends with.

They give the coefficients of each token and the gradients of alpha and bias first, and add the chunks of phi's sums up
last. What is between them is the backward's own.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch
from mhc.backends.triton.mhc_pre.backward import alpha_bias_kernel, coefficients_kernel, phi_gamma_kernel
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads, MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreAddingInputs, MhcPreBackwardInputs, MhcPreGrads, MhcPreSpec

# Programs to aim at: some for each of the multiprocessors of a large GPU. It bounds the chunks, and with them the
# memory for their sums.
_PROGRAMS = 1024

GROUP = 32  # the mixes of c are padded to a multiple of as many: tiles of ``tl.dot``

Spec = MhcPreSpec | MhcHeadSpec
BackwardInputs = MhcPreBackwardInputs | MhcHeadBackwardInputs
Grads = MhcPreGrads | MhcHeadGrads


class Configs(NamedTuple):
    """The configurations of the three device functions."""

    coefficients: Config
    alpha_bias: Config
    phi_gamma: Config


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
    return spec.post_scale if isinstance(spec, MhcPreSpec) else 1.0


def configure(spec: Spec, target: GPUTarget | None, form: str) -> Configs:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, hidden, columns, line, compiler = 512, 1024, 1024, 1024, {}
    else:
        # A warp has a token of its own, and the sums of up to four streams in a pass: no sum leaves it.
        tokens, hidden, columns, line, compiler = 4, 8 * target.warp_size, 64, 8192, options(4)
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
    }
    return Configs(
        Config(constants, compiler),
        Config({"STREAMS": spec.streams, "MIXES": spec.mixes, "BLOCK": line}, compiler and options(8)),
        Config({"WIDTH": spec.width, "MIXES": spec.mixes, "BLOCK_MIXES": 8, "BLOCK": columns}, compiler),
    )


def chunks_of(tokens: int, programs: int, rows: int) -> tuple[int, int]:
    """Return the tokens of a chunk, a multiple of ``rows``, and the number of chunks.

    ``programs`` work on one chunk, each of them on ``rows`` tokens at a time.
    """
    count = min(cdiv(tokens, 8 * rows), max(1, _PROGRAMS // programs))
    chunk = cdiv(cdiv(tokens, count), rows) * rows
    return chunk, cdiv(tokens, chunk)


def added(inputs: BackwardInputs, out: Grads) -> torch.Tensor | None:
    """Return the gradient to add to that of x, or None where there is none."""
    return inputs.added if isinstance(inputs, MhcPreAddingInputs) and out.x is not None else None


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


def first_launches(inputs: BackwardInputs, out: Grads, tiles: Configs, between: Scratch) -> list[Launch]:
    """Return the launches for the coefficients, and for the gradients of alpha and bias where they are asked for."""
    tokens, mixes = inputs.x.shape[:-2].numel(), tiles.coefficients.constants["MIXES"]
    grads = inputs[7:10] if isinstance(inputs, MhcPreBackwardInputs) else (inputs.grad_out, None, None)
    arguments = (inputs.x, inputs.alpha, inputs.bias, inputs.m, inputs.r, *grads, *between[:3], tokens)
    programs = cdiv(tokens, tiles.coefficients.constants["BLOCK_TOKENS"])
    launches = [Launch(coefficients_kernel, tiles.coefficients, (programs,), arguments)]
    if out.alpha is not None or out.bias is not None:
        arguments = (between.partial, out.alpha, out.bias, programs)
        launches.append(Launch(alpha_bias_kernel, tiles.alpha_bias, (mixes + inputs.alpha.shape[0],), arguments))
    return launches


def last_launches(
    inputs: BackwardInputs, out: Grads, tiles: Configs, chunks: torch.Tensor | None, count: int
) -> list[Launch]:
    """Return the launch for the gradients of phi and gamma, where one of them is asked for."""
    if chunks is None:
        return []
    width, block = tiles.phi_gamma.constants["WIDTH"], tiles.phi_gamma.constants["BLOCK"]
    arguments = (inputs.phi, inputs.gamma, chunks, out.phi, out.gamma, count)
    return [Launch(phi_gamma_kernel, tiles.phi_gamma, (cdiv(width, block),), arguments)]


def sources(spec: Spec, tiles: Configs) -> tuple[list[Source], list[Source]]:
    """Return the device functions that come first and last, as all gradients together need them."""
    x, wide = POINTERS[spec.dtype], "*fp32"
    gamma = wide if spec.gamma else None
    grads = (x, wide, wide) if isinstance(spec, MhcPreSpec) else (x, None, None)
    coefficients = "*bf16" if tiles.coefficients.constants["FORM"] == "bf16x3" else wide
    first = [
        Source(coefficients_kernel, tiles.coefficients, (x, *(wide,) * 4, *grads, coefficients, wide, wide, "i32")),
        Source(alpha_bias_kernel, tiles.alpha_bias, (wide, wide, wide, "i32")),
    ]
    return first, [Source(phi_gamma_kernel, tiles.phi_gamma, (wide, gamma, wide, wide, gamma, "i32"))]
