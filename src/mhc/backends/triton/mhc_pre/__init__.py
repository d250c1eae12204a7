"""``mhc_pre`` and ``mhc_head`` in Triton: launched on the GPU that holds the inputs, or compiled ahead of time.

``mhc_head`` is ``mhc_pre`` without the coefficients that write back.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, options, token_grid
from mhc.backends.triton.mhc_pre.backward import (
    alpha_bias_kernel,
    coefficients_kernel,
    phi_gamma_kernel,
    stream_kernel,
)
from mhc.backends.triton.mhc_pre.forward import mhc_pre_kernel
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads, MhcHeadInputs, MhcHeadOutputs, MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreInputs, MhcPreOutputs, MhcPreSpec

# Programs of stream_kernel to aim at: some for each of the multiprocessors of a large GPU. It bounds the chunks, and
# with them the memory for their sums.
_PROGRAMS = 1024


@functools.cache
def _config(spec: MhcPreSpec | MhcHeadSpec, target: GPUTarget | None) -> Config:
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
        # As many neighbours as one load of 16 bytes brings of phi, in rows that begin on a multiple of as many;
        # fewer of them for many mixes, as compilers put all the loads of phi before the sums, in registers too.
        vector = math.gcd(spec.width, 4 if mixes <= 48 else 2)
        warps = 4
        threads = warps * target.warp_size
        width, hidden = threads * vector, threads * 16 // tokens
        compiler = options(warps)
        if target.backend == "cuda" and target.arch >= 100:
            # Left to itself, ptxas rather spills a few there than go above 168.
            compiler["maxnreg"] = 255
    constants = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "MIXES": mixes,
        "NORM_EPS": spec.norm_eps,
        "PRE_EPS": spec.pre_eps,
        "BLOCK_TOKENS": tokens,
        "BLOCK_WIDTH": width,
        "BLOCK_HIDDEN": max(vector, min(hidden, triton.next_power_of_2(spec.hidden))),
        "VECTOR": vector,
    }
    return Config(constants, compiler)


def _launches(inputs: MhcPreInputs | MhcHeadInputs, out: MhcPreOutputs | MhcHeadOutputs, tiles: Config) -> list[Launch]:
    tokens = inputs.x.shape[0]
    outputs = (*out, None, None)[:3]  # mhc_head has only the first
    return [Launch(mhc_pre_kernel, tiles, token_grid(tokens, tiles), (*inputs[:5], *outputs, tokens))]


def _sources(spec: MhcPreSpec | MhcHeadSpec, tiles: Config) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    coefficients = (wide, wide) if isinstance(spec, MhcPreSpec) else (None, None)
    types = (x, wide, wide, wide, wide if spec.gamma else None, x, *coefficients, "i32")
    return [Source(mhc_pre_kernel, tiles, types)]


class _Configs(NamedTuple):
    """The configurations of the four device functions, in the order of their launches."""

    coefficients: Config
    alpha_bias: Config
    stream: Config
    phi_gamma: Config


@functools.cache
def _backward_configs(spec: MhcPreSpec | MhcHeadSpec, target: GPUTarget | None) -> _Configs:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    forward = _config(spec, target)
    streams, hidden, mixes = (forward.constants[name] for name in ("STREAMS", "HIDDEN", "MIXES"))
    if target is None:
        # As few and large as the forward's.
        tokens, rows, vector = forward.constants["BLOCK_TOKENS"], 1, 1
        columns, block, line, compiler, most = 1024, 1024, 1024, {}, {}
    else:
        # A thread keeps phi and a sum of every mix of its columns: up to 160 registers.
        vector = math.gcd(hidden, 4 if mixes <= 12 else 2 if mixes <= 24 else 1)
        tokens, rows = 1, 4 if mixes <= 35 else 2
        columns, block, line = 4 * target.warp_size * vector, 4 * target.warp_size, 4096
        compiler = options(4)
        # Left to itself, ptxas rather spills than go above 168.
        most = compiler | ({"maxnreg": 255} if target.backend == "cuda" else {})
    columns = min(columns, triton.next_power_of_2(hidden))
    shape = {"STREAMS": streams, "HIDDEN": hidden, "MIXES": mixes}
    return _Configs(
        forward,
        Config({"STREAMS": streams, "MIXES": mixes, "BLOCK": line}, compiler),
        Config({**shape, "BLOCK_TOKENS": tokens, "ROWS": rows, "BLOCK_HIDDEN": columns, "VECTOR": vector}, most),
        Config({"WIDTH": spec.width, "MIXES": mixes, "BLOCK": block}, compiler),
    )


def _backward_launches(
    inputs: MhcPreBackwardInputs | MhcHeadBackwardInputs, out: MhcPreGrads | MhcHeadGrads, tiles: _Configs
) -> list[Launch]:
    spec, tokens = inputs.spec, inputs.x.shape[0]
    x, phi, alpha, bias, gamma = inputs[:5]
    grads = (*inputs[5:-2], None, None)[:3]  # mhc_head has only the first
    programs = triton.cdiv(tokens, tiles.coefficients.constants["BLOCK_TOKENS"])
    blocks = spec.streams * triton.cdiv(spec.hidden, tiles.stream.constants["BLOCK_HIDDEN"])
    rows = tiles.stream.constants["BLOCK_TOKENS"] * tiles.stream.constants["ROWS"]
    chunk = triton.cdiv(tokens, min(triton.cdiv(tokens, 8 * rows), max(1, _PROGRAMS // blocks)))
    count = triton.cdiv(tokens, chunk)
    coefficients = phi.new_empty(spec.mixes + spec.streams + 1, tokens)
    partial = phi.new_empty(2 * spec.mixes, programs)
    chunks = phi.new_empty(count, spec.mixes, spec.width)
    return [
        Launch(
            coefficients_kernel,
            tiles.coefficients,
            (programs,),
            (x, phi, alpha, bias, gamma, *grads, coefficients, partial, tokens),
        ),
        Launch(
            alpha_bias_kernel,
            tiles.alpha_bias,
            (spec.mixes + alpha.shape[0],),
            (partial, out.alpha, out.bias, programs),
        ),
        Launch(
            stream_kernel,
            tiles.stream,
            (blocks, count),
            (x, phi, gamma, grads[0], coefficients, out.x, chunks, tokens, chunk),
        ),
        Launch(
            phi_gamma_kernel,
            tiles.phi_gamma,
            (triton.cdiv(spec.width, tiles.phi_gamma.constants["BLOCK"]),),
            (phi, gamma, chunks, out.phi, out.gamma, count),
        ),
    ]


def _backward_sources(spec: MhcPreSpec | MhcHeadSpec, tiles: _Configs) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    gamma = wide if spec.gamma else None
    grads = (x, wide, wide) if isinstance(spec, MhcPreSpec) else (x, None, None)
    return [
        Source(coefficients_kernel, tiles.coefficients, (x, wide, wide, wide, gamma, *grads, wide, wide, "i32")),
        Source(alpha_bias_kernel, tiles.alpha_bias, (wide, wide, wide, "i32")),
        Source(stream_kernel, tiles.stream, (x, wide, gamma, x, wide, x, wide, "i32", "i32")),
        Source(phi_gamma_kernel, tiles.phi_gamma, (wide, gamma, wide, wide, gamma, "i32")),
    ]


FORWARD = Kernel(mhc_pre_kernel, _config, _launches, _sources)
BACKWARD = Kernel(stream_kernel, _backward_configs, _backward_launches, _backward_sources)
