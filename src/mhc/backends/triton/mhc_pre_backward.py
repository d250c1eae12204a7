"""Gradient of ``mhc_pre`` in Triton.

The host side, ``mhc_head``'s too; :mod:`mhc.backends.triton.kernel_backward` is the device code.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel_backward import (
    alpha_bias_kernel,
    coefficients_kernel,
    phi_gamma_kernel,
    stream_kernel,
)
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, options
from mhc.backends.triton.mhc_pre import config as forward_config
from mhc.backends.triton.operator import Operator
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads, MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreSpec

# Programs of stream_kernel to aim at: some for each of the multiprocessors of a large GPU. It bounds the chunks, and
# with them the memory for their sums.
_PROGRAMS = 1024


class Configs(NamedTuple):
    """Those of the four kernels, in the order of their launches."""

    coefficients: Config
    alpha_bias: Config
    stream: Config
    phi_gamma: Config


@functools.cache
def configs(spec: MhcPreSpec | MhcHeadSpec, target: GPUTarget | None) -> Configs:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    forward = forward_config(spec, target)
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
    return Configs(
        forward,
        Config({"STREAMS": streams, "MIXES": mixes, "BLOCK": line}, compiler),
        Config({**shape, "BLOCK_TOKENS": tokens, "ROWS": rows, "BLOCK_HIDDEN": columns, "VECTOR": vector}, most),
        Config({"WIDTH": spec.width, "MIXES": mixes, "BLOCK": block}, compiler),
    )


def _launches(
    inputs: MhcPreBackwardInputs | MhcHeadBackwardInputs, out: MhcPreGrads | MhcHeadGrads, tiles: Configs
) -> list[Launch]:
    spec, tokens = inputs.spec, inputs.x.shape[0]
    x, phi, alpha, bias, gamma = inputs[:5]
    grads = (*inputs[5:-2], None, None)[:3]  # mhc_head has the first alone
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


def _sources(spec: MhcPreSpec | MhcHeadSpec, tiles: Configs) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    gamma = wide if spec.gamma else None
    grads = (x, wide, wide) if isinstance(spec, MhcPreSpec) else (x, None, None)
    return [
        Source(coefficients_kernel, tiles.coefficients, (x, wide, wide, wide, gamma, *grads, wide, wide, "i32")),
        Source(alpha_bias_kernel, tiles.alpha_bias, (wide, wide, wide, "i32")),
        Source(stream_kernel, tiles.stream, (x, wide, gamma, x, wide, x, wide, "i32", "i32")),
        Source(phi_gamma_kernel, tiles.phi_gamma, (wide, gamma, wide, wide, gamma, "i32")),
    ]


_OPERATOR = Operator(stream_kernel, configs, _launches, _sources)
run, compile = _OPERATOR.run, _OPERATOR.compile
